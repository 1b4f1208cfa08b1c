/* SPDX-License-Identifier: MIT */
/* Bytes as UKMEM_CONF, as a file of tunables, and as the name of a program: the first zero byte
 * ends the first, the second the last. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/config.h"
#include "base/config_file.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int file = -1;
	static char path[64];
	static struct config_reading reading;
	static struct config values;
	struct input in = { data, data + size };
	char *environment = input_text(&in), *program = input_text(&in);
	struct config_row row;
	size_t rest = (size_t)(in.end - in.at);

	if (file < 0) {
		file = memfd_create("ukmem.conf", 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
		config_etc_path = path;
	}
	if (file < 0 || ftruncate(file, 0) || pwrite(file, in.at, rest, 0) != (ssize_t)rest ||
	    setenv("UKMEM_CONF", environment, 1))
		abort();
	config_read_for(&reading, &values, program, false);
	for (unsigned int i = 0; config_row(&reading, i, &row); i++) {
		MUST(row.name && row.help && *row.value);
		MUST(strlen(row.value) < sizeof(row.value));
	}
	(void)config_glob(environment, strlen(environment), program);
	free(program);
	free(environment);
	return 0;
}
