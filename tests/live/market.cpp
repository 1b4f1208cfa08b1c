/* SPDX-License-Identifier: MIT */
/*
 * A C++ program that works: a market whose traders place orders and take them back. Its names
 * have namespaces and templates.
 *
 *   market         fills its books and says "ready"; trades until a line comes, then says
 * "rests"; ends when stdin does market leak    the same, but it has lost 400 orders' names
 */
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace market
{
enum { TRADERS = 3, PLANTED = 60000, OPEN = 8000, LOST = 400 };

/* Numbers have 64 bits: one of 32 beside the upper half of an old pointer, in memory that was
 * not cleared, would look like an address, and hide what is leaked. */
struct order {
	explicit order(unsigned long number)
	    : name("order " + std::to_string(number)), number(number)
	{
	}

	std::string name;
	std::vector<std::shared_ptr<order>> parts;
	std::function<unsigned long()> price;
	unsigned long number;
};

template <typename Key, typename Value> class book
{
	std::map<Key, std::shared_ptr<Value>> entries;
	std::mutex lock;
	std::vector<char *> kept;

      public:
	/* The function that the profile has to show: what it allocates stays. */
	__attribute__((noinline, noipa)) void planted(std::size_t size)
	{
		kept.reserve(PLANTED);
		for (int i = 0; i < PLANTED; i++)
			kept.push_back(new char[size]());
	}

	void place(Key key, std::shared_ptr<Value> value)
	{
		std::lock_guard<std::mutex> guard(lock);

		entries[key] = std::move(value);
		if (entries.size() > OPEN)
			entries.erase(entries.begin());
	}

	std::shared_ptr<Value> take(Key key)
	{
		std::lock_guard<std::mutex> guard(lock);
		auto found = entries.find(key);

		if (found == entries.end())
			return nullptr;
		auto value = std::move(found->second);

		entries.erase(found);
		return value;
	}
};

static book<unsigned long, order> open_orders;
static std::atomic<bool> rests;

/* Traders take orders that other traders have placed. */
template <int Number> __attribute__((noinline, noipa)) static void trade(unsigned long rounds)
{
	std::uint32_t state = Number;

	for (unsigned long i = 0; rounds ? i < rounds : !rests; i++) {
		state = state * 1664525 + 1013904223;
		auto mine = std::make_shared<order>(state >> 16);

		mine->price = [mine = mine.get(), i] { return mine->number + i; };
		for (unsigned long n = state >> 30; n; n--)
			mine->parts.push_back(std::make_shared<order>(n));
		open_orders.place(state >> 18, mine);
		auto other = open_orders.take(state >> 8 & 0x3fff);

		if (other && other->parts.size() > 1)
			other->parts.pop_back();
	}
}

/* Nothing leads to them when it returns. */
__attribute__((noinline, noipa)) static void lose()
{
	for (int i = 0; i < LOST; i++) {
		char *volatile name =
			new char[700](); /* volatile: so that the compiler keeps it */

		static_cast<void>(name);
	}
}

static void say(const char *text, size_t length)
{
	if (write(STDOUT_FILENO, text, length) < 0)
		abort();
}

static int run(bool leak)
{
	char c;

	if (leak)
		lose();
	open_orders.planted(200);
	trade<TRADERS>(2 * OPEN);
	say("ready\n", 6);

	std::vector<std::thread> traders;

	traders.emplace_back(trade<0>, 0);
	traders.emplace_back(trade<1>, 0);
	traders.emplace_back(trade<2>, 0);
	while (read(STDIN_FILENO, &c, 1) > 0 && c != '\n')
		;
	rests = true;
	for (auto &t : traders)
		t.join();
	say("rests\n", 6);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}
} // namespace market

int main(int argc, char **)
{
	return market::run(argc > 1);
}
