/* SPDX-License-Identifier: MIT */
/* Lists, powers of two and alignment, and log lines. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <list>
#include <sstream>
#include <string>
#include <thread>

#include "test_util.h"

extern "C" {
#include "base/bits.h"
#include "base/list.h"
#define _Noreturn [[noreturn]]
#include "base/log.h"
#include "base/sys.h"
#undef _Noreturn
}

namespace
{

struct Item {
	int value;
	struct list_head link;
};

std::list<int> forward(struct list_head *head)
{
	std::list<int> out;
	Item *i;

	list_for_each_entry (i, head, link)
		out.push_back(i->value);
	return out;
}

std::list<int> backward(struct list_head *head)
{
	std::list<int> out;

	for (auto *l = head->prev; l != head; l = l->prev)
		out.push_front(list_entry(l, Item, link)->value);
	return out;
}

TEST(ListTest, AgreesWithAModel)
{
	std::mt19937 random(test_seed());
	struct list_head head;
	std::vector<Item> items(50);
	std::list<int> model;
	std::vector<bool> in(50);

	list_init(&head);
	EXPECT_TRUE(list_empty(&head));
	for (int step = 0; step < 5000; step++) {
		unsigned i = random() % items.size();

		if (in[i]) {
			list_del(&items[i].link);
			model.remove(static_cast<int>(i));
		} else if (random() % 2) {
			items[i].value = static_cast<int>(i);
			list_add(&items[i].link, &head);
			model.push_front(static_cast<int>(i));
		} else {
			items[i].value = static_cast<int>(i);
			list_add_tail(&items[i].link, &head);
			model.push_back(static_cast<int>(i));
		}
		in[i] = !in[i];
		ASSERT_EQ(forward(&head), model);
		ASSERT_EQ(backward(&head), model);
		ASSERT_EQ(list_empty(&head), model.empty());
		if (!model.empty()) {
			ASSERT_EQ(list_first_entry(&head, Item, link)->value, model.front());
		}
	}
}

TEST(ListTest, SafeIterationSurvivesRemoval)
{
	struct list_head head;
	Item items[10], *i, *next;

	list_init(&head);
	for (int k = 0; k < 10; k++) {
		items[k].value = k;
		list_add_tail(&items[k].link, &head);
	}
	list_for_each_entry_safe (i, next, &head, link) {
		if (i->value % 2) {
			list_del(&i->link);
			i->link.next = i->link.prev = nullptr;
		}
	}
	EXPECT_EQ(forward(&head), (std::list<int>{ 0, 2, 4, 6, 8 }));
}

TEST(BitsTest, PowersAndLogarithms)
{
	EXPECT_FALSE(is_pow2(0));
	for (unsigned k = 0; k < 64; k++) {
		size_t p = static_cast<size_t>(1) << k;

		EXPECT_TRUE(is_pow2(p));
		EXPECT_EQ(ilog2(p), k);
		EXPECT_EQ(ilog2_up(p), k);
		if (k > 1) {
			EXPECT_FALSE(is_pow2(p - 1));
			EXPECT_FALSE(is_pow2(p + 1));
			EXPECT_EQ(ilog2(p - 1), k - 1);
			EXPECT_EQ(ilog2_up(p - 1), k);
			EXPECT_EQ(ilog2(p + 1), k);
			EXPECT_EQ(ilog2_up(p + 1), k + 1);
		}
	}
	EXPECT_EQ(ilog2(SIZE_MAX), 63u);
	EXPECT_EQ(ilog2_up(SIZE_MAX), 64u);
}

TEST(BitsTest, Alignment)
{
	for (size_t a = 1; a <= 4096; a *= 2)
		for (size_t x = 0; x < 10000; x += 13) {
			ASSERT_EQ(align_up(x, a), (x + a - 1) / a * a);
			ASSERT_EQ(align_down(x, a), x / a * a);
		}
	EXPECT_EQ(min_size(3, 5), 3u);
	EXPECT_EQ(max_size(3, 5), 5u);
	EXPECT_EQ(min_uint(5, 3), 3u);
	EXPECT_EQ(max_uint(5, 3), 5u);
}

std::string logged(size_t length)
{
	std::string text(length, 'x');

	::testing::internal::CaptureStderr();
	log_warn("%s", text.c_str());
	return ::testing::internal::GetCapturedStderr();
}

TEST(LogTest, OneWholeLine)
{
	::testing::internal::CaptureStderr();
	log_warn("%s is %d", "it", 42);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(), "ukmem: it is 42\n");
	EXPECT_EQ(logged(0), "ukmem: \n");
}

TEST(LogTest, LongLinesAreCutAndStillEnd)
{
	size_t longest = 0;

	for (size_t length = 300; length < 1000; length++) {
		std::string line = logged(length);

		ASSERT_EQ(line.substr(0, 8), "ukmem: x");
		ASSERT_EQ(line.find('\n'), line.size() - 1) << "one line, with its end";
		ASSERT_EQ(line.find('\0'), std::string::npos);
		if (line.size() == 7 + length + 1)
			longest = length;
		else
			ASSERT_EQ(line.size(), 7 + longest + 1)
				<< "cut at the same place always";
	}
	EXPECT_GT(longest, 490u);
	EXPECT_LT(longest, 512u);
}

/* Threads that report at the same time. A report inside another one is a part of it. */
TEST(LogTest, ReportsStayTogether)
{
	constexpr unsigned kThreads = 4, kReports = 100, kLines = 4;

	std::atomic<bool> starved{ false };

	testing::internal::CaptureStderr();
	{
		Threads threads(kThreads, [&](unsigned id) {
			for (unsigned i = 0; i < kReports; i++) {
				const auto start = std::chrono::steady_clock::now();
				const bool outer = log_begin(), inner = log_begin();

				if (std::chrono::steady_clock::now() - start >=
				    std::chrono::milliseconds(LOG_WAIT_MS))
					starved = true;
				EXPECT_TRUE(outer);
				EXPECT_FALSE(inner);
				log_end(inner);
				for (unsigned line = 0; line < kLines; line++)
					log_warn("%u %u %u", id, i, line);
				log_end(outer);
				/* Others find a moment in which nobody reports. */
				std::this_thread::sleep_for(std::chrono::microseconds(200));
			}
		});
	}
	std::istringstream lines(testing::internal::GetCapturedStderr());
	std::string start, line;
	unsigned n = 0, mixed = 0;

	for (; std::getline(lines, line); n++) {
		const std::string report = line.substr(0, line.rfind(' '));

		if (n % kLines)
			mixed += report != start;
		start = report;
	}
	EXPECT_EQ(n, kThreads * kReports * kLines);
	if (starved)
		GTEST_SKIP() << "a thread had to wait too long";
	EXPECT_EQ(mixed, 0u);
}

/* A thread that waits for a report without an end reports after a while, and the next one does
 * not wait: what the first thread does then changes nothing. */
TEST(LogTest, NoReportWaitsForEver)
{
	std::atomic<bool> began{ false }, done{ false };

	Threads threads(2, [&](unsigned id) {
		if (id == 0) {
			const bool begun = log_begin();

			began = true;
			while (!done)
				std::this_thread::sleep_for(std::chrono::milliseconds(1));
			log_end(begun);
		} else {
			while (!began)
				std::this_thread::yield();
			const bool begun = log_begin();

			EXPECT_TRUE(begun);
			log_end(begun);
			for (int i = 0; i < 3; i++)
				log_end(log_begin());
			done = true;
		}
	});
}

TEST(LogTest, KeepsErrno)
{
	int saved = dup(STDERR_FILENO);

	close(STDERR_FILENO);
	errno = ERANGE;
	log_warn("nobody reads this");
	int after = errno;
	dup2(saved, STDERR_FILENO);
	close(saved);
	EXPECT_EQ(after, ERANGE);
}

/* Messages, until the one whose reader has gone. Result: as a status for exit(). */
int log_without_reader(bool blocked, bool before)
{
	sigset_t pipe_signal, pending;
	int p[2];

	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	if (pipe(p) || dup2(p[1], STDERR_FILENO) < 0 || close(p[1]) || close(p[0]))
		return 1;
	sigprocmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &pipe_signal, nullptr);
	if (before)
		raise(SIGPIPE);
	log_warn("nobody reads this");
	sigpending(&pending);
	return sigismember(&pending, SIGPIPE) == before ? 0 : 2;
}

TEST(LogDeathTest, PipeThatNobodyReads)
{
	EXPECT_EXIT(_exit(log_without_reader(false, false)), ::testing::ExitedWithCode(0), "");
	EXPECT_EXIT(_exit(log_without_reader(true, false)), ::testing::ExitedWithCode(0), "");
	EXPECT_EXIT(_exit(log_without_reader(true, true)), ::testing::ExitedWithCode(0), "")
		<< "the program's own signal stays";
}

/* Writes to a pipe whose reader goes away in the middle of it. */
int write_until_reader_goes()
{
	const std::string text(1 << 20, 'x');
	sigset_t pending;
	int p[2];

	signal(SIGPIPE, SIG_DFL);
	if (pipe(p))
		return 1;
	std::thread reader([&] {
		usleep(100 * 1000);
		close(p[0]);
	});
	ssize_t done = sys_write(p[1], text.data(), text.size());
	reader.join();
	sigpending(&pending);
	return done > 0 && !sigismember(&pending, SIGPIPE) ? 0 : 2;
}

TEST(SysDeathTest, AReaderThatGoesAwayInTheMiddle)
{
	EXPECT_EXIT(_exit(write_until_reader_goes()), ::testing::ExitedWithCode(0), "");
}

/* A text of @n bytes to a file that may have no bytes, with SIGXFSZ as it is usually. */
int write_beyond_limit(size_t n)
{
	const std::string text(n, 'x');
	const struct rlimit none = { 0, 0 };
	sigset_t pending;
	FILE *file = tmpfile();
	int error;

	signal(SIGXFSZ, SIG_DFL);
	if (!file || setrlimit(RLIMIT_FSIZE, &none))
		return 1;
	error = sys_write_all(fileno(file), text.data(), text.size());
	sigpending(&pending);
	return error == -EFBIG && !sigismember(&pending, SIGXFSZ) ? 0 : 2;
}

TEST(SysDeathTest, FilesWithoutRoom)
{
	EXPECT_EXIT(_exit(write_beyond_limit(100)), ::testing::ExitedWithCode(0), "");
}

/* The library waits for the reader of a full pipe, though the pipe is non-blocking, so the
 * reader gets all of a text. */
TEST(SysTest, FullPipesAreWaitedFor)
{
	const std::string text(1 << 20, 'x');
	std::string read_text;
	int p[2];

	ASSERT_EQ(pipe2(p, O_NONBLOCK), 0);
	std::thread reader([&] {
		char part[5000];

		for (ssize_t n; (n = read(p[0], part, sizeof(part))) != 0;)
			if (n > 0)
				read_text.append(part, static_cast<size_t>(n));
			else
				usleep(3000);
	});
	EXPECT_EQ(sys_write_all(p[1], text.data(), text.size()), 0);
	close(p[1]);
	reader.join();
	EXPECT_EQ(read_text, text);
	close(p[0]);
}

TEST(LogDeathTest, FatalAborts)
{
	EXPECT_EXIT(log_fatal("the end: %d", 7), ::testing::KilledBySignal(SIGABRT),
		    "^ukmem: the end: 7\n$");
}

} // namespace
