/* SPDX-License-Identifier: MIT */
/* Runs of config_probe, which prints a row of the table of tunables a line on stdout: a process
 * reads environment and files once. */
#ifndef UNIT_CONFIG_UTIL_H
#define UNIT_CONFIG_UTIL_H

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

struct Result {
	std::map<std::string, std::string> value, fallback, range, type, origin;
	std::string version; /* what verbose:1 prints */
	std::string warnings;
};

inline std::string read_all(int fd)
{
	std::string text;
	char buf[4096];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		text.append(buf, static_cast<size_t>(n));
	close(fd);
	return text;
}

/* Runs @program, config_probe by this or another name. */
inline Result probe(std::vector<std::string> env, std::vector<std::string> arguments = {},
		    const std::string &program = CONFIG_PROBE)
{
	std::vector<char *> envp, argv = { const_cast<char *>(program.c_str()) };
	posix_spawn_file_actions_t actions;
	int out[2], err[2], status = 0;
	pid_t child;
	Result r;

	for (auto &e : env)
		envp.push_back(e.data());
	envp.push_back(nullptr);
	for (auto &a : arguments)
		argv.push_back(a.data());
	argv.push_back(nullptr);
	EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
	EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
	EXPECT_EQ(posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(),
			      envp.data()),
		  0);
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]);
	close(err[1]);
	r.warnings = read_all(err[0]);
	std::istringstream lines(read_all(out[0]));
	waitpid(child, &status, 0);
	EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	/* The last line, if the tunable verbose is set. */
	if (const size_t at = r.warnings.find("ukmem: version "); at != std::string::npos) {
		r.version = r.warnings.substr(at);
		r.warnings.erase(at);
	}
	for (std::string key; lines >> key;) {
		lines >> r.value[key] >> r.fallback[key] >> r.range[key] >> r.type[key] >>
			r.origin[key];
	}
	return r;
}

#endif
