/* SPDX-License-Identifier: MIT */
/*
 * For a compiler to work on: templates of the standard library, and functions over them. It is
 * compiled, not linked; -DCOPIES=N instantiates more of it.
 */
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#ifndef COPIES
#define COPIES 3
#endif

namespace
{
template <int Copy> struct Record {
	std::string name;
	std::vector<std::pair<int, double>> values;
	std::map<std::string, std::variant<int, double, std::string>> fields;
	std::array<int, static_cast<size_t>(Copy) + 1> fixed{};

	bool operator<(const Record &other) const
	{
		return std::tie(name, values) < std::tie(other.name, other.values);
	}
};

template <int Copy> class Store
{
      public:
	Record<Copy> &add(const std::string &name)
	{
		auto record = std::make_shared<Record<Copy>>();

		record->name = name + std::to_string(Copy);
		by_name[record->name] = record;
		order.push_back(record);
		return *record;
	}

	std::optional<double> total(const std::string &name) const
	{
		auto found = by_name.find(name);

		if (found == by_name.end())
			return std::nullopt;
		const auto &values = found->second->values;
		return std::accumulate(values.begin(), values.end(), 0.0,
				       [](double sum, const auto &value) {
					       return sum + value.first * value.second;
				       });
	}

	std::string describe() const
	{
		std::ostringstream text;

		for (const auto &record : order) {
			for (const auto &[key, field] : record->fields)
				std::visit(
					[&text, &name = key](const auto &value) {
						text << name << '=' << value;
					},
					field);
			for (int number : record->fixed)
				text << number << ' ';
		}
		return text.str();
	}

	std::vector<std::string> matching(const std::string &pattern) const
	{
		std::vector<std::string> names;

		for (const auto &[name, record] : by_name)
			if (name.find(pattern) != std::string::npos && !record->values.empty())
				names.push_back(name);
		std::sort(names.begin(), names.end(), std::greater<>());
		names.erase(std::unique(names.begin(), names.end()), names.end());
		return names;
	}

      private:
	std::unordered_map<std::string, std::shared_ptr<Record<Copy>>> by_name;
	std::deque<std::shared_ptr<Record<Copy>>> order;
};

template <int Copy> std::string use()
{
	Store<Copy> store;
	std::set<Record<Copy>> kept;
	std::function<double(int)> scale = [](int number) { return number / (Copy + 1.5); };

	for (int number = 0; number < 1000; number++) {
		auto &record = store.add("record" + std::to_string(number % 37));

		record.values.emplace_back(number, scale(number));
		record.fields["number"] = number;
		record.fields["text"] = std::to_string(number);
		kept.insert(record);
	}
	auto names = store.matching("ord1");
	std::stable_sort(names.begin(), names.end(),
			 [](const auto &a, const auto &b) { return a.size() < b.size(); });
	return store.describe() + (names.empty() ? "" : names.front()) +
	       std::to_string(store.total("record1").value_or(0) +
			      static_cast<double>(kept.size()));
}

template <int... Copies> std::string use_all(std::integer_sequence<int, Copies...>)
{
	return (use<Copies>() + ...);
}
} // namespace

std::string result();
std::string result()
{
	return use_all(std::make_integer_sequence<int, COPIES>());
}
