/* SPDX-License-Identifier: MIT */
/* Files of tunables: their lines and sections, which of them wins, and whose are read. */
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "config_util.h"
#include "test_util.h"

extern "C" {
#define _Bool bool
#include "base/config_file.h"
#undef _Bool
}

namespace
{

/* A directory with files of tunables in it. */
class ConfigFileTest : public testing::Test
{
      protected:
	void SetUp() override
	{
		char name[] = "/tmp/ukmem-config-XXXXXX";

		ASSERT_NE(mkdtemp(name), nullptr);
		dir = name;
		etc = dir + "/etc.conf";
		user = dir + "/ukmem.conf";
	}

	void TearDown() override
	{
		std::filesystem::remove_all(dir);
	}

	static void write(const std::string &path, const std::string &text)
	{
		std::ofstream(path, std::ios::binary) << text;
	}

	/* What a program gets if /etc's file has this text, and the user's file the other. */
	Result read(const std::string &etc_text, const std::string &user_text = "",
		    const std::string &environment = "")
	{
		std::vector<std::string> env = { "XDG_CONFIG_HOME=" + dir };

		write(etc, etc_text);
		write(user, user_text);
		if (!environment.empty())
			env.push_back("UKMEM_CONF=" + environment);
		return probe(env, { etc });
	}

	std::string dir, etc, user;
};

TEST_F(ConfigFileTest, Lines)
{
	Result r = read("# a comment\n"
			"\n"
			"  dirty_max: 3m   # another\r\n"
			"dirty_decay_ms=250\n"
			"\tthp \t=\t never\t\n"
			"slab_attr: a/b=1;c#d/e=2\n"
			"#limit: 1g\n"
			"show = stats");

	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["dirty_max"], "3m");
	EXPECT_EQ(r.value["dirty_decay_ms"], "250");
	EXPECT_EQ(r.value["thp"], "never");
	EXPECT_EQ(r.value["slab_attr"], "a/b=1;c#d/e=2") << "a comment begins behind a space";
	EXPECT_EQ(r.value["limit"], "0");
	EXPECT_EQ(r.value["show"], "stats") << "a last line without its end";
	EXPECT_EQ(r.origin["dirty_max"], etc + ":3");
	EXPECT_EQ(r.origin["show"], etc + ":8");
	EXPECT_EQ(r.origin["limit"], "default");
}

TEST_F(ConfigFileTest, TheEnvironmentWinsOverTheUserAndTheUserOverTheSystem)
{
	Result r = read("dirty_max:1m\nlimit:1g\nthp:never\nthp:always\n",
			"dirty_max:2m\nlimit:2g\n", "dirty_max:3m");

	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["dirty_max"], "3m");
	EXPECT_EQ(r.origin["dirty_max"], "UKMEM_CONF");
	EXPECT_EQ(r.value["limit"], "2048m");
	EXPECT_EQ(r.origin["limit"], user + ":2");
	EXPECT_EQ(r.value["thp"], "always") << "the last line counts";
	EXPECT_EQ(r.origin["thp"], etc + ":4");
}

TEST_F(ConfigFileTest, Sections)
{
	Result r = read("dirty_max:1m\n"
			"[postgres* ls]\n"
			"dirty_max:2m\n"
			"no_such_key:1\n"
			"[ls config_probe]\n"
			"limit:1g\n"
			"[ config_* ] # this program's, too\n"
			"thp:never\n"
			"[config_prob]\n"
			"thp:always\n"
			"[]\n"
			"thp:always\n"
			"[config_probe?]\n"
			"thp:always\n"
			"[*]\n"
			"dirty_decay_ms:7\n");

	EXPECT_EQ(r.warnings, "") << "lines of others' sections are not looked at";
	EXPECT_EQ(r.value["dirty_max"], "1m");
	EXPECT_EQ(r.value["limit"], "1024m");
	EXPECT_EQ(r.value["thp"], "never");
	EXPECT_EQ(r.value["dirty_decay_ms"], "7");
	EXPECT_EQ(r.origin["thp"], etc + ":8");
}

/* The name is that of the file that was started, not argv[0], and of a link that of the link.
 */
TEST_F(ConfigFileTest, NamesOfPrograms)
{
	const std::string link = dir + "/other";

	std::filesystem::create_symlink(CONFIG_PROBE, link);
	write(etc, "[other]\nthp:never\n[config_probe]\nlimit:1g\n");
	Result r = probe({}, { etc }, link);
	EXPECT_EQ(r.value["thp"], "never");
	EXPECT_EQ(r.value["limit"], "0");
}

TEST_F(ConfigFileTest, Globs)
{
	struct {
		const char *pattern, *name;
		bool matches;
	} cases[] = { { "", "", true },
		      { "", "a", false },
		      { "*", "", true },
		      { "*", "abc", true },
		      { "a*", "abc", true },
		      { "a*", "ba", false },
		      { "*c", "abcc", true },
		      { "*c", "abcd", false },
		      { "a*b*c", "aXbYbc", true },
		      { "a*b*c", "aXbYb", false },
		      { "**a", "a", true },
		      { "?", "", false },
		      { "?", "a", true },
		      { "a?c", "abc", true },
		      { "a?c", "ac", false },
		      { "*?", "", false },
		      { "*a?", "aaab", true },
		      { "abc", "abcd", false },
		      { "abcd", "abc", false } };

	for (const auto &c : cases)
		EXPECT_EQ(config_glob(c.pattern, strlen(c.pattern), c.name), c.matches)
			<< c.pattern << " " << c.name;
	EXPECT_TRUE(config_glob("ab]", 2, "ab")) << "the length counts";
}

TEST_F(ConfigFileTest, ErrorsSayFileAndLineOnce)
{
	Result r = read("dirty_max: 1m\ndirty_max: x\n",
			"\nno_such_key: 1\nverbose\n[ls\ndirty_max: 2m\n", "limit:x");

	EXPECT_EQ(r.warnings,
		  "ukmem: " + etc +
			  ":2: bad value 'x' for configuration key 'dirty_max' (0..1048576m), "
			  "using 1m\n"
			  "ukmem: " +
			  user +
			  ":2: unknown configuration key 'no_such_key' (ukmem config lists "
			  "them)\nukmem: " +
			  user + ":3: 'verbose' is not key: value\nukmem: " + user +
			  ":4: section '[ls' does not end with ]\n"
			  "ukmem: bad value 'x' for configuration key 'limit' (0..67108864m), "
			  "using 0\n");
	EXPECT_EQ(r.value["dirty_max"], "1m") << "lines behind such a section are nobody's";
}

/* A bad value in the environment leaves the file's, and the message says so. */
TEST_F(ConfigFileTest, BadValueInTheEnvironment)
{
	Result r = read("dirty_max: 1m", "", "dirty_max:x");

	EXPECT_EQ(r.warnings, "ukmem: bad value 'x' for configuration key 'dirty_max' "
			      "(0..1048576m), using 1m\n");
	EXPECT_EQ(r.origin["dirty_max"], etc + ":1");
}

TEST_F(ConfigFileTest, NotReadIfTheEnvironmentSaysSo)
{
	Result r = read("limit:1g\nx:1", "limit:2g", "config_files:0,dirty_max:1m");

	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["limit"], "0");
	EXPECT_EQ(r.value["dirty_max"], "1m");
	r = read("config_files:0\nlimit:1g");
	EXPECT_EQ(r.warnings,
		  "ukmem: " + etc + ":1: config_files counts in UKMEM_CONF alone\n");
	EXPECT_EQ(r.value["limit"], "1024m");
	EXPECT_EQ(read("config.files:0").warnings, r.warnings);
	r = read("limit:1g", "limit:2g", "config_files:0,config_files:1");
	EXPECT_EQ(r.value["limit"], "2048m");
}

TEST_F(ConfigFileTest, NotReadIfAFilterMayBeThere)
{
	write(etc, "limit:1g");
	EXPECT_EQ(probe({}, { etc }).value["limit"], "1024m");
	Result r = probe({ "UKMEM_CONF=dirty_max:1m" }, { etc, "confined" });
	EXPECT_EQ(r.value["limit"], "0");
	EXPECT_EQ(r.value["dirty_max"], "1m");
}

/* $XDG_CONFIG_HOME, else ~/.config; relative directories do not count. */
TEST_F(ConfigFileTest, WhereTheUsersFileIs)
{
	std::filesystem::create_directory(dir + "/.config");
	write(user, "limit:1g");
	write(dir + "/.config/ukmem.conf", "limit:2g");
	const std::string xdg = "XDG_CONFIG_HOME=", home = "HOME=";

	EXPECT_EQ(probe({ home + dir }).value["limit"], "2048m");
	EXPECT_EQ(probe({ home + dir, xdg + dir }).value["limit"], "1024m");
	EXPECT_EQ(probe({ home + dir, xdg }).value["limit"], "2048m") << "empty is not set";
	EXPECT_EQ(probe({ home + dir, xdg + "." }).value["limit"], "2048m");
	EXPECT_EQ(probe({ xdg + "/nowhere", home + dir }).value["limit"], "0");
	std::filesystem::current_path(dir);
	EXPECT_EQ(probe({ home, xdg }).value["limit"], "0");
	EXPECT_EQ(probe({ home + "." }).value["limit"], "0");
	Result r = probe({ home + "/" + std::string(300, 'a') });
	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value, r.fallback) << "no file where the path is too long";
}

TEST_F(ConfigFileTest, LongLinesAndFiles)
{
	const std::string line(CONFIG_LINE_SIZE, ' ');
	Result r = read("limit:1g" + line + line + "\ndirty_max:1m" + line.substr(13) + "\n",
			std::string(1000, '\n') + "thp:never");

	EXPECT_EQ(r.warnings, "ukmem: " + etc + ":1: the line has more than 1024 bytes\n");
	EXPECT_EQ(r.value["limit"], "0");
	EXPECT_EQ(r.value["dirty_max"], "1m");
	EXPECT_EQ(r.origin["dirty_max"], etc + ":2") << "a long line is one line";
	EXPECT_EQ(r.origin["thp"], user + ":1001");
	r = read(std::string(CONFIG_FILE_SIZE, '\n') + "limit:1g\n");
	EXPECT_EQ(r.value["limit"], "0");
	EXPECT_EQ(r.warnings, "ukmem: " + etc +
				      ":65535: what follows is not read: the file has more "
				      "than 256 KiB\n");
}

/* Every split of a text between two reads is one of these: the window moves by a byte. */
TEST_F(ConfigFileTest, LinesAcrossTheWindow)
{
	for (size_t at = CONFIG_LINE_SIZE - 16; at < CONFIG_LINE_SIZE + 16; at++) {
		Result r = read("#" + std::string(at - 2, 'x') + "\nlimit:1g\nthp:never");

		EXPECT_EQ(r.value["limit"], "1024m") << at;
		EXPECT_EQ(r.origin["thp"], etc + ":3") << at;
	}
}

/* Behind a last line without its newline lies what was read before it. */
TEST_F(ConfigFileTest, NumberInALastLineWithoutItsEnd)
{
	Result r = read("\ndirty_decay_ms: 12");

	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["dirty_decay_ms"], "12");
	/* The text fills the window, whose last bytes are those of a line before. */
	r = read("#\ndirty_decay_ms: 34\n" + std::string(CONFIG_LINE_SIZE - 22, '7') +
		 "\nlimit: 12");
	EXPECT_EQ(r.value["limit"], "12");
}

/* No such thing makes a program wait or fail. */
TEST_F(ConfigFileTest, WhatIsNoFile)
{
	const std::string fifo = dir + "/fifo";

	Result r = probe({}, { dir });
	EXPECT_EQ(r.warnings, "ukmem: " + dir + ": cannot be read (errno 21)\n");
	ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
	EXPECT_EQ(probe({}, { fifo }).warnings, "");
	r = probe({}, { "/dev/zero" });
	EXPECT_EQ(r.warnings.find("the line has more than"), sizeof("ukmem: /dev/zero:1:"));
	std::filesystem::create_symlink(dir + "/loop", dir + "/loop");
	r = probe({}, { dir + "/loop" });
	EXPECT_EQ(r.warnings, "ukmem: " + dir + "/loop: cannot be opened (errno 40)\n");
}

/* sudo -E leaves the user's HOME to a process of root. */
TEST_F(ConfigFileTest, FilesOfOtherUsersAreNotRead)
{
	const std::string copy = dir + "/config_probe", theirs = dir + "/theirs";
	const uid_t nobody = 65534;

	if (geteuid())
		GTEST_SKIP() << "only root can give files to other users";
	write(etc, "limit:1g");
	write(user, "dirty_max:1m");
	ASSERT_EQ(chown(etc.c_str(), nobody, nobody), 0);
	ASSERT_EQ(chown(user.c_str(), nobody, nobody), 0);
	Result r = probe({ "XDG_CONFIG_HOME=" + dir }, { etc });
	EXPECT_EQ(r.value["limit"], "1024m") << "of the machine's file nothing is asked";
	EXPECT_EQ(r.value["dirty_max"], r.fallback["dirty_max"]);
	EXPECT_EQ(r.warnings, "ukmem: " + user +
				      ": not read: its owner, or its directory's, is neither "
				      "this user nor root\n");
	/* A link of theirs leads to a file of root's. */
	std::filesystem::create_directory(theirs);
	ASSERT_EQ(chown(theirs.c_str(), nobody, nobody), 0);
	write(dir + "/secret", "a secret line");
	std::filesystem::create_symlink(dir + "/secret", theirs + "/ukmem.conf");
	r = probe({ "XDG_CONFIG_HOME=" + theirs }, { etc });
	EXPECT_EQ(r.warnings, "ukmem: " + theirs +
				      "/ukmem.conf: not read: its owner, or its directory's, "
				      "is neither this user nor root\n");
	/* By its owner it is read. */
	std::filesystem::copy_file(CONFIG_PROBE, copy);
	ASSERT_EQ(chmod(dir.c_str(), 0755), 0);
	ASSERT_EQ(setresuid(nobody, nobody, 0), 0);
	r = probe({ "XDG_CONFIG_HOME=" + dir }, { etc }, copy);
	ASSERT_EQ(setresuid(0, 0, 0), 0);
	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value["dirty_max"], "1m");
}

/* A setuid program of another user's reads nothing that the one who starts it can write, nor
 * /etc's file, since its errors would tell what stands in files. */
TEST_F(ConfigFileTest, NotReadInSecureMode)
{
	const std::string copy = dir + "/config_probe";
	const uid_t nobody = 65534;
	struct statvfs fs;

#ifdef __SANITIZE_ADDRESS__
	GTEST_SKIP()
		<< "the search for leaks needs ptrace, which a setuid program does not allow";
#endif
	ASSERT_EQ(statvfs(dir.c_str(), &fs), 0);
	if (geteuid() || (fs.f_flag & ST_NOSUID))
		GTEST_SKIP()
			<< "only root can make a setuid program of another user's, on a file "
			   "system that has such";
	write(etc, "limit:1g");
	write(user, "dirty_max:1m");
	std::filesystem::copy_file(CONFIG_PROBE, copy);
	ASSERT_EQ(chmod(dir.c_str(), 0755), 0);
	ASSERT_EQ(chown(copy.c_str(), nobody, nobody), 0);
	ASSERT_EQ(chmod(copy.c_str(), 0755), 0);
	Result r = probe({ "XDG_CONFIG_HOME=" + dir }, { etc }, copy);
	EXPECT_EQ(r.value["limit"], "1024m");
	EXPECT_EQ(r.value["dirty_max"], "1m");
	ASSERT_EQ(chmod(copy.c_str(), 04755), 0);
	r = probe({ "XDG_CONFIG_HOME=" + dir, "UKMEM_CONF=thp:never" }, { etc }, copy);
	EXPECT_EQ(r.warnings, "");
	EXPECT_EQ(r.value, r.fallback);
}

} // namespace
