// SPDX-License-Identifier: MIT
// The fast walk over a stack finds what the compiler's unwinder finds.
#include <alloca.h>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <random>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>
#include <vector>

#include "test_util.h"

extern "C" {
#include "base/code_file.h"
#include "base/stack.h"
#include "base/unwind.h"
#include "base/unwind_rule.h"
}

#define frame __attribute__((noinline, noclone))

namespace
{

#if defined(__x86_64__) && defined(__LP64__)
constexpr bool is_fast = true;
#else
constexpr bool is_fast = false;
#endif

constexpr unsigned int most = 600;

struct stacks {
	std::vector<uintptr_t> exact, fast, read;
};

struct trace {
	uintptr_t caller;
	std::vector<uintptr_t> pc;
};

_Unwind_Reason_Code note(_Unwind_Context *context, void *arg)
{
	auto *t = static_cast<trace *>(arg);
	const uintptr_t pc = _Unwind_GetIP(context);

	if (!pc)
		return _URC_END_OF_STACK;
	if (pc == t->caller)
		t->pc.clear();
	t->pc.push_back(pc);
	return _URC_NO_REASON;
}

// For the rules, before any test.
const bool begun = [] {
	unwind_begin(std::calloc(1, unwind_bytes() + 1));
	return true;
}();

// Volatile uses keep calls from being the last ones of their functions.
volatile unsigned int sink;

stacks *result;

// The stack of its caller, three times.
frame void look()
{
	const auto caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
	uintptr_t pc[most];
	trace t = { caller, {} };
	unsigned int n;
	enum unwind_end end;

	_Unwind_Backtrace(note, &t);
	result->exact = t.pc;
	n = unwind_stack(pc, most, caller, &end);
	result->fast.assign(pc, pc + (end == UNWIND_WHOLE ? n : 0));
	result->read.assign(pc,
			    pc + stack_read(pc, most, reinterpret_cast<void *>(caller), true));
	sink = sink + 1;
}

stacks look_from(const std::function<void()> &f)
{
	stacks s;

	result = &s;
	f();
	return s;
}

void expect_same(const std::function<void()> &f)
{
	// The first walk reads the rules, the second uses them.
	for (int i = 0; i < 2; i++) {
		const stacks s = look_from(f);

		EXPECT_GT(s.exact.size(), 3u);
		EXPECT_EQ(s.read, s.exact);
		if (is_fast) {
			EXPECT_EQ(s.fast, s.exact);
		}
	}
}

frame void recurse(unsigned int n)
{
	volatile char space[40];

	space[n % sizeof(space)] = 1;
	if (n)
		recurse(n - 1);
	else
		look();
	sink = sink + space[n % sizeof(space)];
}

frame void with_alloca(size_t n, unsigned int depth)
{
	auto *space = static_cast<volatile char *>(alloca(n));

	space[n / 2] = 1;
	if (depth)
		with_alloca(n * 3 / 2 + 7, depth - 1);
	else
		look();
	sink = sink + space[n / 2];
}

frame void with_large_frame()
{
	volatile char space[200000];

	space[sink % sizeof(space)] = 1;
	look();
	sink = sink + space[sink % sizeof(space)];
}

frame void with_alignment()
{
	alignas(256) volatile char space[512];

	space[sink % sizeof(space)] = 1;
	look();
	sink = sink + space[sink % sizeof(space)];
}

frame unsigned int with_many_values(unsigned int a, unsigned int b, unsigned int c,
				    unsigned int d, unsigned int e, unsigned int f,
				    unsigned int g, unsigned int h)
{
	look();
	sink = sink + a;
	look();
	return a + b * c + d * e + f * g + h;
}

#if defined(__x86_64__) && defined(__LP64__)
// A return in the middle: the instructions behind it go back to the row of before. Behind the
// call there is another row, which is not the call's.
extern "C" void unwind_two_ends(int early, void (*function)());
asm(R"(
	.text
	.type unwind_two_ends, @function
unwind_two_ends:
	.cfi_startproc
	push %rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	sub $32, %rsp
	.cfi_def_cfa_offset 48
	test %edi, %edi
	jz 1f
	.cfi_remember_state
	add $32, %rsp
	.cfi_def_cfa_offset 16
	pop %rbx
	.cfi_def_cfa_offset 8
	ret
1:
	.cfi_restore_state
	call *%rsi
	.cfi_def_cfa_offset 16
	add $32, %rsp
	pop %rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size unwind_two_ends, . - unwind_two_ends
)");

TEST(Unwind, ReturnInTheMiddle)
{
	unwind_two_ends(1, look);
	expect_same([] { unwind_two_ends(0, look); });
}
#endif

#if defined(__x86_64__) && defined(__LP64__)
// The called function takes its arguments off the stack, so the caller's frame is smaller from
// the return address on.
extern "C" void unwind_callee_pops(void (*function)());
asm(R"(
	.text
	.type unwind_pops, @function
unwind_pops:
	.cfi_startproc
	sub $8, %rsp
	.cfi_def_cfa_offset 16
	call *%rdi
	add $8, %rsp
	.cfi_def_cfa_offset 8
	ret $16
	.cfi_endproc
	.size unwind_pops, . - unwind_pops
	.type unwind_callee_pops, @function
unwind_callee_pops:
	.cfi_startproc
	push %rdi
	.cfi_def_cfa_offset 16
	push $0
	.cfi_def_cfa_offset 24
	push $0
	.cfi_def_cfa_offset 32
	call unwind_pops
	.cfi_def_cfa_offset 16
	add $8, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size unwind_callee_pops, . - unwind_callee_pops
)");

TEST(Unwind, CalleePops)
{
	expect_same([] { unwind_callee_pops(look); });
}
#endif

struct cleanup {
	~cleanup()
	{
		sink = sink + 1;
	}
};

frame void with_cleanup()
{
	const cleanup c;
	const std::string text(sink % 100, 'x');

	look();
	sink = sink + static_cast<unsigned int>(text.size());
}

int compare_and_look(const void *a, const void *b)
{
	look();
	return std::memcmp(a, b, sizeof(int));
}

frame void through_libc()
{
	int n[] = { 3, 1, 2 };

	qsort(n, 3, sizeof(n[0]), compare_and_look);
	sink = sink + static_cast<unsigned int>(n[0]);
}

TEST(Unwind, Functions)
{
	expect_same(look);
	expect_same([] { recurse(3); });
	expect_same([] { recurse(500); });
	expect_same(with_large_frame);
	expect_same(with_cleanup);
	expect_same(through_libc);
	expect_same([] { sink = sink + with_many_values(1, 2, 3, 4, 5, 6, 7, 8); });
}

TEST(Unwind, FramesOfChangingSize)
{
	std::minstd_rand random(1);

	for (int i = 0; i < 200; i++) {
		const size_t n = random() % 3000 + 1;

		expect_same([n] { with_alloca(n, 4); });
	}
}

TEST(Unwind, Threads)
{
	std::thread([] { expect_same([] { recurse(5); }); }).join();
}

// Realigned frames may or may not be of the simple kinds.
TEST(Unwind, AlignedFrames)
{
	for (size_t n = 1; n < 200; n += 13) {
		const stacks s = look_from([n] {
			auto *space = static_cast<volatile char *>(alloca(n));

			space[0] = 1;
			with_alignment();
			sink = sink + space[0];
		});

		EXPECT_EQ(s.read, s.exact);
		EXPECT_TRUE(s.fast.empty() || s.fast == s.exact);
	}
}

// A stack with room for less than there is.
TEST(Unwind, CutOff)
{
	const auto caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
	uintptr_t pc[most], few[2];
	const unsigned int all = stack_read(pc, most, reinterpret_cast<void *>(caller), true);

	ASSERT_GT(all, 2u);
	ASSERT_EQ(stack_read(few, 2, reinterpret_cast<void *>(caller), true), 2u);
	EXPECT_EQ(few[0], pc[0]);
	EXPECT_EQ(few[1], pc[1]);
}

#ifndef __SANITIZE_THREAD__ // which calls handlers itself, and refuses that they allocate
TEST(Unwind, SignalHandlers)
{
	struct sigaction action = {}, old;

	action.sa_handler = [](int) { look(); };
	sigaction(SIGUSR1, &action, &old);

	const stacks s = look_from([] { raise(SIGUSR1); });

	sigaction(SIGUSR1, &old, nullptr);
	EXPECT_EQ(s.read, s.exact);
	EXPECT_TRUE(s.fast.empty());
}
#endif

ucontext_t from, to;

TEST(Unwind, OtherStacks)
{
	std::vector<char> stack(256 << 10);
	const stacks s = look_from([&] {
		getcontext(&to);
		to.uc_stack.ss_sp = stack.data();
		to.uc_stack.ss_size = stack.size();
		to.uc_link = &from;
		makecontext(
			&to, +[] { recurse(4); }, 0);
		swapcontext(&from, &to);
	});

	EXPECT_GT(s.exact.size(), 5u);
	EXPECT_EQ(s.read, s.exact);
}

#if defined(__x86_64__)
// Reads the stack of a coroutine, from which it goes back: its function never returns.
frame void look_at_end()
{
	uintptr_t pc[most];
	void *caller = __builtin_return_address(0);
	const unsigned int n = stack_read(pc, most, caller, true);

	result->read.assign(pc, pc + n);
	swapcontext(&to, &from);
}

frame void middle()
{
	look_at_end();
	sink = sink + 1;
}

// Calls middle(), and is what is outermost: it has tables, and no return address.
__attribute__((naked, noinline, used)) void outermost()
{
	__asm__("call *%r12; hlt");
}

// A coroutine at the end of @size bytes at @stack: @function begins there, as if it had been
// called, with @back as its return address; or outermost() does, which calls @function, and has
// none.
void run_at_end(char *stack, size_t size, void (*function)(), const uintptr_t *back)
{
	auto *top = reinterpret_cast<uintptr_t *>(stack + size);
	auto &registers = to.uc_mcontext.gregs;

	if (back)
		*--top = *back;
	getcontext(&to);
	to.uc_stack.ss_sp = stack;
	to.uc_stack.ss_size = size;
	makecontext(&to, back ? function : outermost, 0);
	registers[REG_RSP] = static_cast<greg_t>(reinterpret_cast<uintptr_t>(top));
	registers[REG_R12] = static_cast<greg_t>(reinterpret_cast<uintptr_t>(function));
	swapcontext(&from, &to);
}

// Coroutines that others made by hand have whatever lay there in the place of the outermost
// return address, or no such place: the compiler's unwinder would fault.
TEST(Unwind, CoroutinesWithoutAnEnd)
{
	const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	const size_t size = 16 * page;
	auto *stack = static_cast<char *>(mmap(nullptr, size + page, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	stacks s;

	ASSERT_NE(stack, MAP_FAILED);
	mprotect(stack + size, page, PROT_NONE);
	result = &s;
	for (const uintptr_t back :
	     { uintptr_t{ 0xdeadbeef }, uintptr_t{ 0xa5a5a5a5a5a5a5a5 },
	       reinterpret_cast<uintptr_t>(stack + size), reinterpret_cast<uintptr_t>(stack),
	       reinterpret_cast<uintptr_t>(stack + 1) }) {
		for (int i = 0; i < 3; i++)
			run_at_end(stack, size, middle, &back);
		if (code_files_are_known()) {
			EXPECT_GE(s.read.size(), 1u);
			EXPECT_LE(s.read.size(), 3u);
		}
	}
	for (int i = 0; i < 3; i++)
		run_at_end(stack, size, middle, nullptr);
	EXPECT_GE(s.read.size(), 1u);
	munmap(stack, size + page);
}
#endif

// A library takes another one's place, with frames of another size at the same addresses: the
// rules of the first one lead nowhere. @walks: in so many at least they are not used.
void expect_unloaded(const std::vector<const char *> &libraries, int walks)
{
	typedef void function(void (*)());
	uintptr_t place = 0;

	for (const char *name : libraries) {
		void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
		stacks s;

		ASSERT_TRUE(library) << dlerror();

		auto *call = reinterpret_cast<function *>(dlsym(library, "call"));

		ASSERT_TRUE(call);
		for (int i = 0; i < 600; i++) {
			s = look_from([&] { call(look); });
			if (i >= 600 - walks) {
				ASSERT_EQ(s.read, s.exact) << name << ", walk " << i;
			}
		}
		if (place && place != s.exact.at(1))
			std::printf("its call lies elsewhere\n");
		place = s.exact.at(1);
		dlclose(library);
	}
}

// Their build IDs differ.
TEST(Unwind, AnotherFileInTheSamePlace)
{
	expect_unloaded({ UNWIND_SMALL, UNWIND_LARGE, UNWIND_SMALL }, 600);
}

// Nothing tells these from each other, but rules do not stay.
TEST(Unwind, UnloadedCode)
{
	expect_unloaded({ UNWIND_SMALL_BARE, UNWIND_LARGE_BARE, UNWIND_SMALL_BARE }, 1);
}

// A table that is damaged leads nowhere outside of its file, which ends where nothing can be
// read; nor to a page of its file that cannot be read, as there may be between its parts.
TEST(Unwind, DamagedTables)
{
	static const unsigned char whole[] = {
		1, 0x1b, 3, 0x3b, 0x14, 0, 0, 0, 1, 0, 0, 0, // the sorted table: one row
		0, 2, 0, 0, 0x30, 0, 0, 0,		     // the code at 0x200 has the entry
							     // at 0x30
		0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 0x10, 1, 0x1b,
		0x0c, 7, 8, 0x90, 1, 0, 0, // what all functions have in
					   // common
		0x1c, 0, 0, 0, 0x1c, 0, 0, 0, 0xc8, 1, 0, 0, 0x40, 0, 0, 0, 0, // the function
		0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0, 0, 0, 0, 0, 0, 0
	};
	const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	auto *memory = static_cast<unsigned char *>(mmap(
		nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	ASSERT_NE(memory, MAP_FAILED);
	ASSERT_EQ(mprotect(memory + page, page, PROT_NONE), 0);
	auto rule = [&](const unsigned char *bytes, size_t n, size_t pc, size_t hole = 0) {
		unsigned char *file = memory + page - n;
		unwind_file f = { file, file, file + n + hole };

		memcpy(file, bytes, n);
		return unwind_read_rule(&f, reinterpret_cast<uintptr_t>(file) + pc);
	};
	// From the frame pointer, two words; where that was saved is two words below.
	if (unwind_bytes()) {
		const struct rule r = rule(whole, sizeof(whole), 0x210);

		EXPECT_EQ(r.kind, RULE_RBP);
		EXPECT_EQ(r.cfa, 2U);
		EXPECT_EQ(r.rbp, 2U);
	}
	for (size_t n = 0; n < sizeof(whole); n++) {
		rule(whole, n, 0x210);
		rule(whole, n, 0x210, page);
	}

	std::mt19937 random(test_seed());
	for (int n = 0; n < 20000; n++) {
		unsigned char bytes[sizeof(whole)];

		memcpy(bytes, whole, sizeof(whole));
		for (int i = 0; i < 3; i++)
			bytes[random() % sizeof(whole)] = static_cast<unsigned char>(random());
		rule(bytes, sizeof(bytes), 0x1f8 + random() % 0x50, n % 2 ? page : 0);
	}
	munmap(memory, 2 * page);
}

/* A word on the stack that looks like a frame's, but leads to a variable. */
TEST(Stack, DataIsNoCode)
{
	static int data;
	static const int constant = 1;
	uintptr_t words[2] = {}, pc[4];
	const auto at = reinterpret_cast<uintptr_t>(words);
	const auto frames = [&](const void *back) {
		words[1] = reinterpret_cast<uintptr_t>(back);
		return stack_read_at(pc, 4, 1, at, at);
	};

	EXPECT_EQ(frames(reinterpret_cast<const void *>(&look)), 2u);
	EXPECT_EQ(frames(reinterpret_cast<const void *>(&getenv)), 2u);
	if (code_files_are_known()) {
		EXPECT_EQ(frames(&data), 1u);
		EXPECT_EQ(frames(&constant), 1u);
	}
}

} // namespace
