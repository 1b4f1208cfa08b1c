/* SPDX-License-Identifier: MIT */
#include "guest.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

std::string read_file(const std::string &path)
{
	std::ifstream file(path);
	std::stringstream text;

	text << file.rdbuf();
	return text.str();
}

int write_file(const std::string &path, const std::string &text)
{
	int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
		err = errno;
	close(fd);
	return err;
}

static const std::string kNodeFolder = "/sys/devices/system/node/node";
static const std::string kCpuFolder = "/sys/devices/system/cpu/cpu";

int node_of_cpu(int cpu)
{
	for (int nid = 0; nid < kNodes; nid++) {
		auto cpus = cpus_of_node(nid);

		if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end())
			return nid;
	}
	return -1;
}

std::vector<int> cpus_of_node(int nid)
{
	std::stringstream ranges(read_file(kNodeFolder + std::to_string(nid) + "/cpulist"));
	std::vector<int> cpus;
	int first, last;

	while (ranges >> first) {
		last = first;
		if (ranges.peek() == '-') {
			ranges.ignore();
			ranges >> last;
		}
		for (int cpu = first; cpu <= last; cpu++)
			cpus.push_back(cpu);
		ranges.ignore();
	}
	return cpus;
}

std::vector<int> nodes_from(int nid)
{
	std::stringstream text(read_file(kNodeFolder + std::to_string(nid) + "/distance"));
	std::map<int, int> by_distance;
	std::vector<int> nodes;
	int distance;

	for (int other = 0; text >> distance; other++)
		by_distance[distance] = other;
	for (auto [d, other] : by_distance)
		nodes.push_back(other);
	if (nodes.size() != kNodes)
		ADD_FAILURE() << "distances of node " << nid << ": " << text.str();
	return nodes;
}

int set_cpu_online(int cpu, bool online)
{
	return write_file(kCpuFolder + std::to_string(cpu) + "/online", online ? "1" : "0");
}

static void run_on(const std::vector<int> &cpus)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int cpu : cpus)
		CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		ADD_FAILURE() << "sched_setaffinity: " << strerror(errno);
}

void pin(int cpu)
{
	run_on({ cpu });
}

void pin_to_node(int nid)
{
	run_on(cpus_of_node(nid));
}

void unpin()
{
	std::vector<int> all;

	for (int cpu = 0; cpu < kCpus; cpu++)
		all.push_back(cpu);
	run_on(all);
}

/* Their nodes in the order of the pages. */
static std::vector<int> real_nodes(const void *addr, size_t bytes)
{
	size_t size = ukmem_page_size();
	auto first = reinterpret_cast<uintptr_t>(addr) & ~(size - 1);
	std::vector<void *> pages;

	for (auto p = first; p < reinterpret_cast<uintptr_t>(addr) + bytes; p += size)
		pages.push_back(reinterpret_cast<void *>(p));
	std::vector<int> nodes(pages.size(), -1);
	if (syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0))
		ADD_FAILURE() << "move_pages: " << strerror(errno);
	return nodes;
}

int real_node(const void *addr)
{
	return real_nodes(addr, 1)[0];
}

int touched_node(void *addr, size_t bytes)
{
	auto *p = static_cast<volatile char *>(addr);

	for (size_t i = 0; i < bytes; i += ukmem_page_size())
		p[i] = p[i];
	p[bytes - 1] = p[bytes - 1];
	auto nodes = real_nodes(addr, bytes);
	for (int nid : nodes)
		if (nid != nodes[0])
			return -1;
	return nodes[0];
}

int touched_node(struct page *page, unsigned order)
{
	return touched_node(page_address(page), ukmem_page_size() << order);
}

std::map<int, unsigned> count_nodes(const std::vector<struct page *> &pages, unsigned order)
{
	std::map<int, unsigned> count;

	for (auto *page : pages)
		count[touched_node(page, order)]++;
	return count;
}

static const std::string kCgroups = "/sys/fs/cgroup/";

Cgroup::Cgroup(const std::string &name) : path_(kCgroups + name)
{
	if (mkdir(path_.c_str(), 0755))
		ADD_FAILURE() << path_ << ": " << strerror(errno);
}

Cgroup::~Cgroup()
{
	leave();
	/* A process that was in the group may take a moment to be gone. */
	for (int i = 0; rmdir(path_.c_str()); i++) {
		if (errno != EBUSY || i == 200) {
			ADD_FAILURE() << path_ << ": " << strerror(errno);
			break;
		}
		usleep(10000);
	}
}

void Cgroup::set(const std::string &file, const std::string &text)
{
	EXPECT_EQ(write_file(path_ + "/" + file, text), 0) << path_ << "/" << file;
}

std::string Cgroup::get(const std::string &file)
{
	return read_file(path_ + "/" + file);
}

long Cgroup::count(const std::string &file, const std::string &key)
{
	std::stringstream text(get(file));
	std::string name;
	long value;

	while (text >> name >> value)
		if (name == key)
			return value;
	return -1;
}

void Cgroup::enter()
{
	set("cgroup.procs", "0");
}

void Cgroup::leave()
{
	EXPECT_EQ(write_file(kCgroups + "cgroup.procs", "0"), 0);
}

void expect_child_passes(const char *file, int line, const char *name,
			 const ChildOptions &options)
{
	std::string output = run_child(name, options);

	if (!output.empty())
		ADD_FAILURE_AT(file, line)
			<< "child " << name << "(" << options.argument << "):\n"
			<< output;
}

static std::map<std::string, void (*)()> &children()
{
	static std::map<std::string, void (*)()> map;

	return map;
}

bool register_child(const char *name, void (*body)())
{
	children()[name] = body;
	return true;
}

const char *child_argument()
{
	return getenv("GUEST_ARGUMENT");
}

std::string run_child(const char *name, const ChildOptions &options)
{
	int fds[2], status;
	char text[4096];
	ssize_t len;
	std::string output;

	bool failed = testing::Test::HasFailure();

	fflush(nullptr);
	if (pipe2(fds, O_CLOEXEC))
		return "pipe2 failed";
	pid_t pid = fork();
	if (!pid) {
		dup2(fds[1], 1);
		dup2(fds[1], 2);
		setenv("GUEST_CHILD", name, 1);
		setenv("GUEST_ARGUMENT", options.argument.c_str(), 1);
		setenv("UKMEM_CONF", options.conf.c_str(), 1);
		if (options.before)
			options.before();
		if (failed || !testing::Test::HasFailure())
			execl("/proc/self/exe", "guest", nullptr);
		fflush(nullptr);
		_exit(127);
	}
	close(fds[1]);
	while ((len = read(fds[0], text, sizeof(text))) > 0)
		output.append(text, static_cast<size_t>(len));
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0)
		;
	if (WIFSIGNALED(status))
		return output + "ended by signal " + std::to_string(WTERMSIG(status));
	if (WEXITSTATUS(status))
		return output + "exit " + std::to_string(WEXITSTATUS(status));
	return output.find("[  PASSED  ] 1 test") == std::string::npos ? "nothing ran" : "";
}

class ChildTest : public testing::Test
{
      public:
	explicit ChildTest(void (*body)()) : body_(body)
	{
	}
	void TestBody() override
	{
		body_();
	}

      private:
	void (*body_)();
};

int main(int argc, char **argv)
{
	const char *child = getenv("GUEST_CHILD");

	testing::InitGoogleTest(&argc, argv);
	if (child) {
		auto body = children().at(child);

		testing::RegisterTest("Child", child, nullptr, nullptr, __FILE__, __LINE__,
				      [=]() -> testing::Test * { return new ChildTest(body); });
		testing::GTEST_FLAG(filter) = std::string("Child.") + child;
	}
	return RUN_ALL_TESTS();
}
