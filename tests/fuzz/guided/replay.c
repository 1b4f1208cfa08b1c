/* SPDX-License-Identifier: MIT */
/*
 * The main() of a target without libFuzzer: runs each file named, or in a folder named, and
 * with --random N so many inputs made of random bytes and of pieces of these files.
 */
#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#include "input.h"

enum { INPUT_MOST = 4096, MAX_FILES = 4096 };

static struct {
	size_t size;
	uint8_t *data;
} files[MAX_FILES];
static size_t nr_files;

static void run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(INPUT_MOST);
	size_t size;

	if (!f || !data) {
		perror(path);
		exit(1);
	}
	size = fread(data, 1, INPUT_MOST, f);
	fclose(f);
	LLVMFuzzerTestOneInput(data, size);
	if (nr_files < MAX_FILES) {
		files[nr_files].data = data;
		files[nr_files++].size = size;
	} else {
		free(data);
	}
}

static void run_path(const char *path)
{
	char name[4096];
	struct dirent *entry;
	DIR *dir = opendir(path);

	if (!dir) {
		run_file(path);
		return;
	}
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.') {
			snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
			run_file(name);
		}
	closedir(dir);
}

static void run_random(unsigned long n, unsigned int seed)
{
	static uint8_t data[INPUT_MOST];

	printf("UKMEM_TEST_SEED=%u\n", seed);
	srand(seed);
	while (n--) {
		size_t size = (size_t)rand() % 512;

		for (size_t i = 0; i < size; i++)
			data[i] = (uint8_t)rand();
		/* Pieces of known inputs between random bytes. */
		for (int pieces = rand() % 4; nr_files && pieces > 0; pieces--) {
			size_t from = (size_t)rand() % nr_files, len, to;

			len = files[from].size < 512 ? files[from].size : 512;
			to = size ? (size_t)rand() % size : 0;
			memcpy(data + to, files[from].data, len);
			size = size > to + len ? size : to + len;
		}
		LLVMFuzzerTestOneInput(data, size);
	}
}

int main(int argc, char **argv)
{
	const char *seed = getenv("UKMEM_TEST_SEED");

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--random") && i + 1 < argc)
			run_random(strtoul(argv[++i], NULL, 10),
				   seed ? (unsigned int)strtoul(seed, NULL, 0)
					: (unsigned int)time(NULL));
		else
			run_path(argv[i]);
	printf("%zu inputs from files\n", nr_files);
	return 0;
}
