/* SPDX-License-Identifier: MIT */
/* The library's own thread, which gives memory back while the program stands still. */
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <thread>

#include "page_decay_util.h"

namespace
{

bool becomes(size_t most_dirty, int ms)
{
	for (; ms > 0; ms -= 10) {
		if (limits().dirty * ukmem_page_size() <= most_dirty)
			return true;
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
	}
	return false;
}

/* Much is freed, one more request, then nothing: whether somebody gives it back. */
bool left_alone()
{
	unsigned long purged = vmstat("pgpurged");
	Pages pages = fill(GFP_KERNEL, 8, 64, true);

	free_all(pages, 8);
	__free_pages(alloc_pages(GFP_KERNEL, 8), 8);
	/*
	 * If this thread had to wait for a CPU, part of the memory may have gone back already.
	 */
	size_t left = limits().dirty + vmstat("pgpurged") - purged;
	if (left < to_pages(60 * kMiB))
		return false;
	return becomes(4 * kMiB, 10000);
}

void background(bool wanted)
{
	configure(std::string("dirty_decay_ms:50,background_thread:") +
		  (wanted ? "always" : "never"));
	if (!wanted) {
		Pages pages = fill(GFP_KERNEL, 8, 64, true);

		free_all(pages, 8);
		__free_pages(alloc_pages(GFP_KERNEL, 8), 8);
		EXPECT_FALSE(becomes(4 * kMiB, 400)) << "nobody does anything";
		return;
	}
	EXPECT_TRUE(left_alone());
	/* ThreadSanitizer starts no threads in the child of a process with several. */
	if (!TEST_TSAN) {
		int status = 0;

		fflush(nullptr);
		pid_t child = fork();
		if (!child)
			_exit(left_alone() ? 0 : 1);
		ASSERT_EQ(waitpid(child, &status, 0), child);
		ASSERT_TRUE(WIFEXITED(status));
		EXPECT_EQ(WEXITSTATUS(status), 0) << "in a child it starts anew";
	}
	EXPECT_TRUE(left_alone()) << "and goes on here";
	expect_all_free();
}

TEST(PageBackgroundTest, InTheBackground)
{
	EXPECT_FRESH_PROCESS_PASSES([] { background(true); });
	EXPECT_FRESH_PROCESS_PASSES([] { background(false); });
}

/* A thread of the program, which does nothing. */
class Other
{
      public:
	Other()
	    : thread_([this] {
		      while (!stop_)
			      usleep(1000);
	      })
	{
	}
	~Other()
	{
		stop_ = true;
		thread_.join();
	}

      private:
	std::atomic_bool stop_{ false };
	std::thread thread_;
};

bool thread_ends()
{
	for (int i = 0; i < 10000 && shim_background_is_running(); i++)
		usleep(1000);
	return !shim_background_is_running();
}

/* The program's one request comes as soon as the thread that served the last one has ended. By
 * default the program gets such a thread because it has another one. */
void just_after_the_end(const char *when)
{
	const Other other;

	configure(std::string("dirty_decay_ms:20,background_thread:") + when);
	Pages pages[5];

	for (Pages &some : pages)
		some = fill(GFP_KERNEL, 8, 64, true);
	for (Pages &some : pages) {
		EXPECT_TRUE(thread_ends());
		free_all(some, 8);
		__free_pages(alloc_pages(GFP_KERNEL, 8), 8);
		EXPECT_TRUE(becomes(4 * kMiB, 10000)) << &some - pages;
	}
	expect_all_free();
}

TEST(PageBackgroundTest, ServesARequestJustAfterTheLastThreadsEnd)
{
	EXPECT_FRESH_PROCESS_PASSES([] { just_after_the_end("always"); });
	EXPECT_FRESH_PROCESS_PASSES([] { just_after_the_end("auto"); });
}

/*
 * The thread reads the clock several times between two pauses, the last time when it has seen
 * whether there is anything to do. In this clock it waits until the test lets it go on.
 */
std::atomic_int reads{ 0 }, may_read{ INT_MAX };

uint64_t now_ms_of_the_thread()
{
	static const pid_t program = gettid();

	if (gettid() != program)
		for (int n = ++reads; n > may_read;)
			usleep(100);
	return os_calls_linux.now_ms();
}

/* Frees, and makes one request, while the thread reads the clock for the @nth time since it
 * gave back all, or when it has ended. Result: how often it had read the clock by then. */
int free_at_read(int nth)
{
	Pages pages = fill(GFP_KERNEL, 8, 64, true), more = fill(GFP_KERNEL, 8, 64, true);
	int before, read;

	free_all(pages, 8);
	__free_pages(alloc_pages(GFP_KERNEL, 8), 8);
	EXPECT_TRUE(becomes(4 * kMiB, 10000));
	before = reads;
	may_read = before + nth - 1;
	for (int i = 0; i < 10000 && reads <= may_read && shim_background_is_running(); i++)
		usleep(1000);
	read = reads - before;
	free_all(more, 8);
	__free_pages(alloc_pages(GFP_KERNEL, 8), 8);
	may_read = INT_MAX;
	EXPECT_TRUE(becomes(4 * kMiB, 10000)) << "freed at reading " << nth;
	EXPECT_TRUE(thread_ends());
	return read;
}

void beside_the_end()
{
	now_ms_of_the_thread(); /* this thread is the program */
	os_calls.now_ms = now_ms_of_the_thread;
	configure("dirty_decay_ms:20,background_thread:always");
	int most = free_at_read(1000000);

	EXPECT_GT(most, 8) << "a pause without work, and more";
	for (int nth = 1; nth <= most; nth++)
		free_at_read(nth);
	expect_all_free();
}

TEST(PageBackgroundTest, ServesARequestBesideItsEnd)
{
	EXPECT_FRESH_PROCESS_PASSES(beside_the_end);
}

/* Whether the library's thread runs after requests of a while. */
bool starts_a_thread()
{
	for (int i = 0; i < 200 && !shim_background_is_running(); i++) {
		Pages pages = fill(GFP_KERNEL, 8, 16, true);

		free_all(pages, 8);
		usleep(5000);
	}
	return shim_background_is_running();
}

/* The system may have as many threads as it may for now, or never have one. */
void refused(int error, const char *says, bool later)
{
	configure("dirty_decay_ms:60000,background_thread:always");
	shim_refuse_threads(error, 3);
	::testing::internal::CaptureStderr();
	EXPECT_EQ(starts_a_thread(), later);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(),
		  "ukmem: background_thread: cannot be created" + std::string(says) + "\n");
}

TEST(PageBackgroundTest, AThreadThatIsRefused)
{
	EXPECT_FRESH_PROCESS_PASSES([] { refused(EAGAIN, " now (error 11)", true); });
	EXPECT_FRESH_PROCESS_PASSES([] { refused(EPERM, " (error 1)", false); });
}

/* Frees memory, and makes requests for a while that may start the thread. Whether it ran. */
bool runs_with(size_t mib)
{
	Pages pages = fill(GFP_KERNEL, 8, mib, true); /* 256 pages each */

	free_all(pages, 8);
	for (int i = 0; i < 20 && !shim_background_is_running(); i++) {
		usleep(2000);
		pages = fill(GFP_KERNEL, 8, 16);
		free_all(pages, 8);
	}
	return shim_background_is_running();
}

/* The library's own thread, which was there for much memory, makes no program one with threads,
 * which has it for less. */
void one_thread_and_the_librarys()
{
	configure("dirty_decay_ms:100");
	EXPECT_FALSE(runs_with(64)) << "one thread";
	EXPECT_TRUE(runs_with(400));
	ASSERT_TRUE(thread_ends());
	usleep(50000); /* until the system does not count it */
	EXPECT_FALSE(runs_with(64)) << "one thread again";
	const Other other;
	usleep(1100 * 1000); /* the system is not asked all the time */
	EXPECT_TRUE(runs_with(64)) << "two";
}

TEST(PageBackgroundTest, OneThreadAndTheLibrarys)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "ThreadSanitizer has a thread of its own";
	EXPECT_FRESH_PROCESS_PASSES(one_thread_and_the_librarys);
}

} // namespace
