/* SPDX-License-Identifier: MIT */
/*
 * What the tests in the virtual machine share. Nothing here asks the library: nodes, CPUs
 * and distances are read from sysfs, where memory lies is asked of the kernel.
 */
#ifndef VM_GUEST_H
#define VM_GUEST_H

#include <gtest/gtest.h>
#include <ukmem/ukmem.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

constexpr int kNodes = 4;
constexpr int kCpus = 8;

using Strings = std::vector<std::string>;

std::string read_file(const std::string &path);
/* 0 or errno. */
int write_file(const std::string &path, const std::string &text);

/* As the machine is now; CPUs that are offline belong to no node. */
int node_of_cpu(int cpu);
std::vector<int> cpus_of_node(int nid);
/* The nodes by distance from @nid, itself first. */
std::vector<int> nodes_from(int nid);
/* 0 or errno. */
int set_cpu_online(int cpu, bool online);

/* The calling thread runs on @cpu only, from now on. */
void pin(int cpu);
void pin_to_node(int nid);
void unpin();

/* The node on which the page at @addr lies, says the kernel; negative: it is nowhere yet. */
int real_node(const void *addr);
/* The same of a page that is written to before, and of each of a run's pages: -1 if they
 * lie on several. */
int touched_node(void *addr, size_t bytes = 1);
int touched_node(struct page *page, unsigned order);
/* The nodes of the first @count runs that are handed out. */
std::map<int, unsigned> count_nodes(const std::vector<struct page *> &pages, unsigned order);

/* A control group; the processes in it must have ended before it goes. */
class Cgroup
{
      public:
	explicit Cgroup(const std::string &name);
	~Cgroup();
	void set(const std::string &file, const std::string &text);
	std::string get(const std::string &file);
	/* The number behind @key in memory.events or the like. */
	long count(const std::string &file, const std::string &key);
	void enter();
	static void leave();

      private:
	std::string path_;
};

/*
 * A function that runs in a process of its own, with the library not yet used, in which
 * assertions may be made: GUEST_CHILD(name) { ... }, then EXPECT_CHILD_PASSES(name).
 */
#define GUEST_CHILD(name)                                                                      \
	static void child_##name();                                                            \
	static const bool registered_##name = register_child(#name, child_##name);             \
	static void child_##name()

bool register_child(const char *name, void (*body)());

struct ChildOptions {
	std::string conf = {};		   /* UKMEM_CONF */
	std::string argument = {};	   /* child_argument() */
	std::function<void()> before = {}; /* in the child, before exec */
};

/* The output of what failed, or how it ended; empty: it passed. */
std::string run_child(const char *name, const ChildOptions &options = {});
const char *child_argument();

void expect_child_passes(const char *file, int line, const char *name,
			 const ChildOptions &options);

#define EXPECT_CHILD_PASSES(name, ...)                                                         \
	expect_child_passes(__FILE__, __LINE__, #name, { __VA_ARGS__ })

#endif
