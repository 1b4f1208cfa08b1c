/* SPDX-License-Identifier: MIT */
/*
 * The Nth call of each kind that the library makes fails, once and from then on, for N = 1, 2,
 * ... until none failed any more: every time a program of all layers runs in a process of its
 * own (scenario.h). It sees its contents whole and each refusal announced; afterwards, when
 * the system agrees again, it runs once more without any, and nothing has been lost.
 *
 * UKMEM_CHECK=full tries every N, with every error or, where there are many, each error in its
 * turn; otherwise some of them, chosen by UKMEM_TEST_SEED. UKMEM_SWEEP_N: this N only.
 * UKMEM_STRESS_SECONDS: nothing is begun after that.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>

#include "faults.h"
#include "scenario.h"
#include "ukmem/kmalloc.h"
#include "unit/fake_os.h"
#include "unit/matched.h"

using namespace sweep;

namespace
{

/* A machine and how the library is told to use it. */
struct Machine {
	const char *name, *conf;
	bool scarce, nodes;
};

const Machine machines[] = {
	{ "Plain", "dirty_max:1M,rseq_self_test:always", false, false },
	{ "Registered", "percpu:register", false, false }, /* where libc registers nobody */
	{ "Nodes", "percpu:cpu_id", false, true },
	{ "Scarce", "percpu:fallback,dirty_max:0", true, false },
	{ "Checked", "slab_debug:ZP", false, false },
};

constexpr unsigned NR_MACHINES = sizeof(machines) / sizeof(machines[0]);

const Fault kNoFault = { NR_CALLS, 0, false, 0, false };

enum { FIRST_N = 2, SOME = 3, MANY = 100, MOST_SPARE = 100, SECONDS = 60 };

/* Of the whole program: kinds whose turn comes later are for another time. */
const TimeBox box;

/* What a run tells; in memory that is shared with it. */
struct Report {
	Counts counts;
	unsigned calls[NR_CALLS]; /* in the first scenario */
	unsigned failures;
	char wrong[400];
};

struct Run {
	const Machine *machine;
	Fault fault;
	const Counts *expected;
	bool leak;
	int spare; /* pages that are left when the fault begins; -1: it begins at once */
};

/* What the library may say when the system refuses. */
bool may_say(const std::string &line)
{
	return !matched(line,
			"^ukmem: (page allocation failure: .*"
			"|kmem_cache_create\\(.*\\): out of memory"
			"|kmem_cache_destroy\\(.*\\): CPUs' lists cannot be emptied, cache kept"
			"|qmempool_create\\(.*\\): out of memory"
			"|qmempool_destroy\\(.*\\): CPUs' arrays cannot be emptied, pool "
			"kept)$")
			.empty();
}

std::string text_of(int log)
{
	std::string said(static_cast<size_t>(lseek(log, 0, SEEK_END)), '\0');

	if (pread(log, said.data(), said.size(), 0) != static_cast<ssize_t>(said.size()))
		said = "the log cannot be read";
	return said;
}

/* The first line that it may not say, or "". */
std::string misuse(const std::string &said)
{
	for (size_t at = 0, end; at < said.size(); at = end + 1) {
		end = std::min(said.find('\n', at), said.size());
		if (std::string line = said.substr(at, end - at); !may_say(line))
			return line;
	}
	return "";
}

void compare(const char *what, size_t is, size_t expected)
{
	if (is != expected)
		wrong("in the end %zu %s, not %zu", is, what, expected);
}

/* Without them the machine is another one, of fewer nodes or with more address space. Where
 * nodes are fewer, more descriptors of caches lie in the library's own data, so fewer are
 * objects. */
bool tells_of_machine(Call call)
{
	return call == READ_FILE || call == AUXVAL || call == AS_LIMIT;
}

void compare_all(Call call, const Counts &is, const Counts &expected)
{
	compare("bytes are allocated", is.allocated, expected.allocated);
	if (tells_of_machine(call))
		return;
	compare("caches' descriptors are there", is.caches, expected.caches);
	compare("bytes per CPU are allocated", is.percpu, expected.percpu);
	if (is.mapped > expected.mapped && call != MUNMAP)
		compare("bytes are mapped", is.mapped, expected.mapped);
}

void two_nodes()
{
	fake_nodes("0,2", { 0, 2 });
	fake_files["/sys/devices/system/cpu/online"] =
		fake_files["/sys/devices/system/cpu/possible"];
}

[[noreturn]] void child(const Run &run, Report *report, int log)
{
	Nothing nothing = run.fault.ever ? Nothing::AFTER_FAILURE : Nothing::WITH_FAILURE;

	alarm(SECONDS);
	dup2(log, STDERR_FILENO);
	setenv("UKMEM_CONF", run.machine->conf, 1);
	report_to(report->wrong, sizeof(report->wrong), log);
	if (run.machine->nodes)
		two_nodes();
	install_faults(run.machine->scarce);
	if (run.spare < 0) {
		arm(run.fault);
		run_scenario(nothing, run.leak);
	} else {
		kfree(kmalloc(8, GFP_KERNEL));
		arm(run.fault);
		run_starved(static_cast<unsigned>(run.spare));
	}
	disarm();
	report->failures = failures();
	for (unsigned i = 0; i < NR_CALLS; i++)
		report->calls[i] = calls_made(static_cast<Call>(i));
	destroy_leftovers();
	run_scenario(Nothing::NEVER);
	report->counts = count_all();
	if (run.expected)
		compare_all(run.fault.call, report->counts, *run.expected);
	_exit(0);
}

/* In a process of its own. Result: what went wrong, or "". */
std::string run_apart(const Run &run, Report *report)
{
	int log = memfd_create("log", MFD_CLOEXEC), status = 0;
	std::string why;
	pid_t pid;

	*report = {};
	fflush(nullptr);
	pid = fork();
	if (!pid)
		child(run, report, log);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		why = "no process";
	else if (report->wrong[0])
		why = report->wrong;
	else if (WIFSIGNALED(status))
		why = WTERMSIG(status) == SIGALRM
			      ? "it stands still"
			      : "killed by signal " + std::to_string(WTERMSIG(status));
	else if (status)
		why = "exit status " + std::to_string(WEXITSTATUS(status));
	std::string said = text_of(log);
	close(log);
	if (why.empty() && misuse(said).empty())
		return "";
	return why + "\n" + said;
}

class Sweep
{
      public:
	explicit Sweep(const Machine &machine) : machine_(machine)
	{
		report_ = static_cast<Report *>(mmap(nullptr, sizeof(Report),
						     PROT_READ | PROT_WRITE,
						     MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	}
	~Sweep()
	{
		munmap(report_, sizeof(Report));
	}
	/* Nothing fails; what is there in the end is expected of the others. */
	std::string first()
	{
		std::string why = run(kNoFault, false);

		expected_ = report_->counts;
		std::copy(report_->calls, report_->calls + NR_CALLS, calls_);
		known_ = true;
		return why;
	}
	std::string run(const Fault &fault, bool leak)
	{
		return run_apart({ &machine_, fault, known_ ? &expected_ : nullptr, leak, -1 },
				 report_);
	}
	/* No more memory from the system, and so many pages of it left. */
	std::string starve(unsigned spare)
	{
		Fault fault = { MMAP, 1, true, ENOMEM, false };

		return run_apart(
			{ &machine_, fault, &expected_, false, static_cast<int>(spare) },
			report_);
	}
	unsigned calls(Call call) const
	{
		return calls_[call];
	}
	bool anything_failed() const
	{
		return report_->failures;
	}

      private:
	const Machine &machine_;
	Report *report_;
	Counts expected_ = {};
	unsigned calls_[NR_CALLS] = {};
	bool known_ = false;
};

bool is_full()
{
	const char *s = getenv("UKMEM_CHECK");

	return s && !strcmp(s, "full");
}

unsigned only_n()
{
	const char *s = getenv("UKMEM_SWEEP_N");

	return s ? static_cast<unsigned>(strtoul(s, nullptr, 0)) : 0;
}

/* The next N: the first few, then about SOME more up to the last one. */
unsigned next_n(unsigned n, unsigned calls, std::mt19937_64 &random)
{
	unsigned step = std::max(2 * calls / (SOME + 1), 1u);

	return is_full() || n < FIRST_N ? n + 1
					: n + 1 + static_cast<unsigned>(random() % step);
}

/*
 * The errors to be tried at N: all, or each in its turn, as where there are many N. That all
 * addresses are somebody else's from now on is none of them: the library would leave them all
 * to him.
 */
std::vector<int> errors_at(Call call, unsigned n, bool ever, unsigned calls)
{
	std::vector<int> errors;

	for (const int *e = call_errors(call); *e; e++)
		if (*e != EEXIST || !ever)
			errors.push_back(*e);
	if ((is_full() && calls <= MANY) || only_n())
		return errors;
	return { errors[n % errors.size()] };
}

class SweepTest : public ::testing::TestWithParam<std::tuple<unsigned, int>>
{
};

TEST_P(SweepTest, EveryCallMayFail)
{
	auto [machine, kind] = GetParam();
	auto call = static_cast<Call>(kind);
	std::mt19937_64 random(test_seed());
	Sweep sweep(machines[machine]);
	unsigned calls;

	if (box.is_over())
		GTEST_SKIP() << "not begun in time";
	ASSERT_EQ(sweep.first(), "");
	calls = sweep.calls(call);
	printf("%u calls\n", calls);
	if (!calls)
		GTEST_SKIP() << "the library has no use for it here";
	for (bool ever : { false, true }) {
		unsigned n = only_n() ? only_n() : 1, runs = 0;
		bool failed = true;

		for (; failed && !box.is_over(); n = next_n(n, calls, random)) {
			failed = false;
			for (int error : errors_at(call, n, ever, calls)) {
				EXPECT_EQ(sweep.run({ call, n, ever, error, false }, false), "")
					<< "call " << n << (ever ? " and all later ones" : "")
					<< " said " << strerrorname_np(error);
				failed = failed || (sweep.anything_failed() && !only_n());
				runs++;
			}
		}
		printf("%s: %u runs\n", ever ? "from N on" : "once", runs);
	}
}

INSTANTIATE_TEST_SUITE_P(All, SweepTest,
			 ::testing::Combine(::testing::Range(0u, NR_MACHINES),
					    ::testing::Range(0, static_cast<int>(NR_CALLS))),
			 [](const auto &param) {
				 auto call = static_cast<Call>(std::get<1>(param.param));

				 return std::string(machines[std::get<0>(param.param)].name) +
					call_name(call);
			 });

/*
 * Memory comes in large pieces, so that hardly any request is the one whose call failed. Here
 * each step of whatever takes several is the one that gets nothing.
 */
class StarvedTest : public ::testing::TestWithParam<unsigned>
{
};

TEST_P(StarvedTest, AnyPageMayBeTheLast)
{
	std::mt19937_64 random(test_seed());
	Sweep sweep(machines[GetParam()]);

	if (box.is_over())
		GTEST_SKIP() << "not begun in time";
	ASSERT_EQ(sweep.first(), "");
	for (unsigned spare = only_n(); spare < MOST_SPARE && !box.is_over();) {
		EXPECT_EQ(sweep.starve(spare), "") << spare << " pages are left";
		if (only_n())
			break;
		spare += is_full() ? 1 : 1 + static_cast<unsigned>(random() % 33);
	}
}

INSTANTIATE_TEST_SUITE_P(All, StarvedTest, ::testing::Range(0u, NR_MACHINES),
			 [](const auto &param) {
				 return std::string(machines[param.param].name);
			 });

/* A sweep that notices nothing is worth nothing. */
TEST(SweepMutantTest, AForgottenBlockIsNoticed)
{
	Sweep sweep(machines[0]);

	ASSERT_EQ(sweep.first(), "");
	EXPECT_NE(sweep.run(kNoFault, true), "");
}

TEST(SweepMutantTest, AnIgnoredErrorIsNoticed)
{
	Sweep sweep(machines[0]);
	unsigned noticed = 0, n = 0;
	std::string why;

	ASSERT_EQ(sweep.first(), "");
	do {
		why = sweep.run({ MMAP, ++n, false, ENOMEM, true }, false);
		noticed += !why.empty();
	} while (!why.empty() || sweep.anything_failed());
	printf("%u of %u\n", noticed, --n);
	EXPECT_GT(noticed, n / 2);
}

} // namespace
