/* SPDX-License-Identifier: MIT */
/* The commands' arguments, and what they share. */
#include "forward.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

volatile sig_atomic_t stopped;

static const struct command {
	const char *name;
	int (*run)(const struct options *o);
	unsigned int nr_places;
	const char *usage;
} commands[] = {
	{ "run", cmd_run, 3, "[--drop] [--packets N] [--seconds S] [--cpu N] BUFFERS FROM TO" },
	{ "send", cmd_send, 1, "[--seconds S] [--cpu N] FROM" },
	{ "check", cmd_check, 2, "[--packets N] [--spoil] [--seconds S] [--cpu N] FROM TO" },
	{ "buffers", cmd_buffers, 1, "[--seconds S] [--cpu N] BUFFERS" },
};
enum { NR_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static int usage(void)
{
	fputs("usage:\n", stderr);
	for (unsigned int i = 0; i < NR_COMMANDS; i++)
		fprintf(stderr, "  forward %s %s\n", commands[i].name, commands[i].usage);
	fputs("FROM, TO: INTERFACE, or NETNS:INTERFACE\nBUFFERS:", stderr);
	for (unsigned int i = 0; i < nr_buffer_kinds; i++)
		fprintf(stderr, " %s", buffer_kinds[i].name);
	fputs("\n--cpu N: only on the N-th of the CPUs this program may use, from 0 on\n",
	      stderr);
	return 2;
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void samples_add(struct samples *s, double ns)
{
	if (s->n < sizeof(s->ns) / sizeof(s->ns[0]))
		s->ns[s->n++] = (float)ns;
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

double samples_median(struct samples *s)
{
	qsort(s->ns, s->n, sizeof(s->ns[0]), compare);
	return s->n ? (double)s->ns[s->n / 2] : 0;
}

static void stop(int sig)
{
	(void)sig;
	stopped = 1;
}

/* Without SA_RESTART: who waits for packets shall notice. */
static void stop_on_signals(void)
{
	const struct sigaction action = { .sa_handler = stop };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static bool pin(unsigned int nth)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return false;
	nth %= (unsigned int)CPU_COUNT(&allowed);
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || nth--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return !sched_setaffinity(0, sizeof(one), &one);
	}
	return false;
}

static bool parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {
		{ "drop", no_argument, NULL, 'd' },
		{ "spoil", no_argument, NULL, 'x' },
		{ "seconds", required_argument, NULL, 's' },
		{ "packets", required_argument, NULL, 'n' },
		{ "cpu", required_argument, NULL, 'c' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (c == 'd')
			o->drop = true;
		else if (c == 'x')
			o->spoil = true;
		else if (c == 's')
			o->seconds = atof(optarg);
		else if (c == 'n')
			o->packets = (unsigned int)strtoul(optarg, NULL, 10);
		else if (c != 'c' || !pin((unsigned int)strtoul(optarg, NULL, 10)))
			return false;
	}
	while (optind < argc && o->nr_places < 3)
		o->places[o->nr_places++] = argv[optind++];
	return optind == argc;
}

int main(int argc, char **argv)
{
	struct options o = { 0 };

	if (argc < 2)
		return usage();
	for (unsigned int i = 0; i < NR_COMMANDS; i++) {
		if (strcmp(commands[i].name, argv[1]) != 0)
			continue;
		if (!parse(argc - 1, argv + 1, &o) || o.nr_places != commands[i].nr_places)
			return usage();
		stop_on_signals();
		return commands[i].run(&o);
	}
	return usage();
}
