/* SPDX-License-Identifier: MIT */
/* Threads that are stopped from outside (tools/live/threads.h) get every signal all the same.
 */
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/memory.h"
#include "live/process.h"
#include "live/threads.h"

namespace
{

constexpr int kSeconds = 1;

struct counts {
	std::atomic<long> sent, handled;
};
counts *n; /* shared with the children */

void handle(int /*signal*/)
{
	n->handled++;
}

/* A child that does @what until it is killed, or ends. */
pid_t child(const std::function<void()> &what)
{
	const pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		what();
		_exit(0);
	}
	return pid;
}

/* Real-time signals, which are queued, so each of them counts. */
void send_all(pid_t to)
{
	const time_t end = time(nullptr) + kSeconds + 1;

	while (time(nullptr) < end)
		if (sigqueue(to, SIGRTMIN, {}) == 0)
			n->sent++;
}

bool has_ended(pid_t pid)
{
	return waitpid(pid, nullptr, WNOHANG) == pid;
}

/* A child in vfork() is in state D until its own child ends or executes a program. */
TEST(ThreadsTest, AThreadThatWaitsInTheKernelDoesNotStopTheOthersForEver)
{
	int ends[2];

	ASSERT_EQ(pipe(ends), 0);
	const pid_t target = child([&] {
		char c;

		close(ends[1]);
		if (!vfork()) {
			read(ends[0], &c, 1);
			_exit(0);
		}
	});
	const std::string file = "/proc/" + std::to_string(target) + "/status";

	while (live::status_line(file, "State").substr(0, 1) != "D")
		usleep(1000);
	try {
		const live::stopped_threads stopped(target);
		ADD_FAILURE() << "it was stopped";
	} catch (const live::error &e) {
		EXPECT_EQ(e.why, live::reason::forbidden);
		EXPECT_NE(std::string(e.what()).find("cannot be stopped"), std::string::npos)
			<< e.what();
	}
	/* Where it may not be traced it is not seized. */
	close(ends[1]);
	kill(target, SIGKILL);
	close(ends[0]);
	waitpid(target, nullptr, 0);
}

TEST(ThreadsTest, NoSignalIsLost)
{
	void *shared = mmap(nullptr, sizeof(*n), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(shared, MAP_FAILED);
	n = new (shared) counts();
	signal(SIGRTMIN, handle); /* children have it from the beginning */
	const pid_t target = child([] {
		for (;;)
			pause();
	});
	const pid_t sender = child([=] { send_all(target); });
	int stops = 0;

	try {
		for (; !has_ended(sender); stops++)
			EXPECT_EQ(live::stopped_threads(target).all.size(), 1u);
	} catch (const live::error &e) {
		kill(sender, SIGKILL);
		kill(target, SIGKILL);
		GTEST_SKIP() << e.what();
	}
	for (int ms = 0; ms < 10000 && n->handled < n->sent; ms += 10)
		usleep(10000);
	EXPECT_EQ(n->handled, n->sent) << stops << " stops";
	EXPECT_GT(stops, 0);
	EXPECT_GT(n->sent, 0);
	kill(target, SIGKILL);
	waitpid(target, nullptr, 0);
	signal(SIGRTMIN, SIG_DFL);
	munmap(shared, sizeof(*n));
}

} // namespace
