/* SPDX-License-Identifier: MIT */
/*
 * Reads the tunables and prints their table; for config_test.
 *
 *	config_probe [ETC [confined]]	with ETC in the place of /etc/ukmem.conf
 */
#include <errno.h>
#include <stdio.h>

#include "base/config_file.h"
#include "base/sys.h"

int main(int argc, char **argv)
{
	const struct config_reading *reading;
	struct config_row row;

	config_etc_path = argc > 1 ? argv[1] : "/nowhere";
	if (argc > 2)
		sys_confine(SYS_CONFINED);
	errno = 0;
	reading = config_read();
	if (errno)
		return 2;
	for (unsigned int i = 0; config_row(reading, i, &row); i++)
		printf("%s %s %s %s %s %s\n", row.name, row.value, row.fallback, row.range,
		       row.type, row.origin);
	return 0;
}
