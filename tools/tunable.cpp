/* SPDX-License-Identifier: MIT */
#include "tunable.h"

extern "C" {
#define _Bool bool
#include "base/config.h"
#undef _Bool
}

bool file_sets(const std::string &program, const std::string &tunable)
{
	struct config_reading reading;
	struct config values;
	struct config_row row;

	config_read_for(&reading, &values, program.substr(program.rfind('/') + 1).c_str(),
			true);
	for (unsigned int i = 0; config_row(&reading, i, &row); i++)
		if (row.name == tunable)
			return reading.origin[i].from == CONFIG_ETC ||
			       reading.origin[i].from == CONFIG_USER;
	return false;
}
