/* SPDX-License-Identifier: MIT */
/* Reads the environment and prints the table of tunables; for config_test. */
#include <stdio.h>

#include "base/config.h"

int main(void)
{
	struct config_row row;

	config_init();
	for (unsigned int i = 0; config_row(i, &row); i++)
		printf("%s %s %s %s %s\n", row.name, row.value, row.fallback, row.range,
		       row.type);
	return 0;
}
