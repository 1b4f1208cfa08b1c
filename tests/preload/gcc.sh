#!/usr/bin/env bash
# gcc and g++: compile a large generated C file and a C++ file full of templates
# with -O2, without and with the library; the object files must be the same, byte
# for byte. The compilers proper (cc1, cc1plus), the assembler and the linker are
# processes of their own and must have used the library too.
#	gcc.sh LIBRARY WITNESS [FUNCTIONS]
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need gcc g++ objdump

functions=${3:-700}

generate_c() {
	awk -v functions="$functions" 'BEGIN {
		print "struct node { struct node *next; long key; double value[4]; };"
		print "extern int printf(const char *, ...);"
		for (i = 0; i < functions; i++) {
			printf "long f%d(struct node *n, long a, const char *s)\n{\n", i
			printf "\tlong sum = %d;\n", i * 7919 % 1009
			printf "\tfor (long i = 0; i < a; i++) {\n"
			printf "\t\tswitch (s[i] %% %d) {\n", i % 13 + 3
			for (j = 0; j < i % 13 + 3; j++)
				printf "\t\tcase %d: sum += n->key * %d ^ i << %d; break;\n", j, i + j, j
			printf "\t\t}\n\t\tn->value[i & 3] += sum * %d.5;\n\t\tn = n->next;\n\t}\n", i
			if (i > 2)
				printf "\tif (sum > a)\n\t\tsum += f%d(n, a - 1, s + 1);\n", i * 31 % i
			printf "\tprintf(\"%%ld function %d\\n\", sum);\n\treturn sum;\n}\n", i
		}
		print "int main(int argc, char **argv) { return argc > 9 ? (int)f7(0, argc, argv[0]) : 0; }"
	}'
}

generate_cxx() {
	cat <<'CXX'
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct shape {
	std::map<std::string, std::vector<std::tuple<int, double, std::string>>> table;
	std::unordered_map<int, std::shared_ptr<std::set<std::string>>> index;
	std::variant<int, std::string, std::vector<double>> either;
	std::string work(const std::string &text)
	{
		std::regex pattern("([a-z]+)-([0-9]{1," + std::to_string(N) + "})");
		for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i) {
			table[(*i)[1]].emplace_back(N, 0.5 * N, (*i)[2]);
			auto &words = index[N];
			if (!words)
				words = std::make_shared<std::set<std::string>>();
			words->insert((*i)[0]);
		}
		std::ostringstream out;
		for (auto &[name, rows] : table) {
			std::sort(rows.begin(), rows.end(), [](auto &a, auto &b) { return b < a; });
			out << name << rows.size();
		}
		either = out.str();
		return std::visit([](auto &v) { return std::to_string(sizeof(v)); }, either);
	}
};
int main(int argc, char **argv)
{
	std::string all = argc > 1 ? argv[1] : "abc-123";
	std::cout << shape<1>().work(all) << shape<2>().work(all) << shape<3>().work(all) << '\n';
}
CXX
}

# build DIR - objects, disassembly and programs, from the sources beside DIR
build() {
	mkdir "$work/$1"
	cd "$work/$1"
	gcc -O2 -c ../large.c -o large.o
	g++ -std=c++17 -O2 -c ../templates.cpp -o templates.o
	gcc large.o -o large
	g++ templates.o -o templates
	objdump -dr large.o templates.o >disassembly.txt
	./large
	./templates >templates.out
}

generate_c >"$work/large.c"
generate_cxx >"$work/templates.cpp"
(build without)
with_library build with
for file in large.o templates.o disassembly.txt large templates templates.out; do
	expect_same "$work/without/$file" "$work/with/$file"
done
expect_used cc1 cc1plus objdump large templates
