// SPDX-License-Identifier: Apache-2.0
/*
 * Two things are corrected, line by line:
 *
 *	maps, smaps	Linux 6.13 has split [vvar] in two on x86_64. They are shown as one, so CRIU
 *			moves both together, which 6.17 allows. (CRIU 4.1 knows the second.)
 *	smaps		Properties that CRIU would not save get a mark (mapping_marks.h).
 */
#include "criu/shown_mapping.h"

#include "criu/mapping_marks.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 4352 /* a path and what stands before it */

struct range {
	unsigned long from, to;
};

struct look {
	int mem_fd;
	struct range second; /* [vvar_vclock]; empty if there is none */
	bool has_marks;
};

static bool begins(const char *line, const char *word)
{
	return strncmp(line, word, strlen(word)) == 0;
}

static bool has_flag(const char *line, const char *flag)
{
	return begins(line, "VmFlags:") && strstr(line, flag);
}

static bool has_range(const char *line, struct range *ret, int *rest)
{
	return sscanf(line, "%lx-%lx%n", &ret->from, &ret->to, rest) == 2;
}

static void clear_range(int mem_fd, struct range range)
{
	static const char zeros[4096];

	for (; range.from < range.to; range.from += sizeof(zeros))
		(void)!pwrite(mem_fd, zeros, sizeof(zeros), (off_t)range.from);
}

static void look_through(FILE *in, struct look *look)
{
	struct range at = {0}, now;
	char line[LINE_SIZE];
	int rest = 0;

	while (fgets(line, sizeof(line), in)) {
		if (has_range(line, &now, &rest)) {
			at = now;
			if (strstr(line, "[vvar_vclock]"))
				look->second = now;
		}
		if (look->mem_fd < 0)
			continue;
		look->has_marks |= has_flag(line, " wf");
		if (has_flag(line, " dp"))
			clear_range(look->mem_fd, at);
	}
}

/* [vvar] reaches to the end of [vvar_vclock], which is left out. */
static void copy_corrected(FILE *in, FILE *out, const struct look *look)
{
	char line[LINE_SIZE];
	bool is_left_out = false;

	while (fgets(line, sizeof(line), in)) {
		struct range now;
		int rest = 0;

		if (has_range(line, &now, &rest)) {
			is_left_out = look->second.to > 0 && now.from == look->second.from;
			if (look->second.to > 0 && now.to == look->second.from &&
			    strstr(line, "[vvar]")) {
				(void)fprintf(out, "%lx-%lx%s", now.from, look->second.to,
				              line + rest);
				continue;
			}
		}
		if (is_left_out)
			continue;
		if (look->has_marks && has_flag(line, " wf"))
			(void)fprintf(out, "%.*s%s%s\n", (int)strcspn(line, "\n"), line,
			              MARK_WIPED_FLAGS,
			              has_flag(line, " dp") ? MARK_DROPPABLE_FLAGS : "");
		else
			(void)fputs(line, out);
	}
}

void show_mappings(int fd, int mem_fd)
{
	struct look look = {.mem_fd = mem_fd};
	FILE *in = fdopen(dup(fd), "r"), *out = NULL;
	int copy = -1;

	if (in)
		look_through(in, &look);
	if (in && (look.second.to > 0 || look.has_marks) && fseek(in, 0, SEEK_SET) == 0) {
		copy = memfd_create("maps", MFD_CLOEXEC);
		out = copy < 0 ? NULL : fdopen(dup(copy), "w");
	}
	if (out) {
		copy_corrected(in, out, &look);
		(void)fclose(out);
		(void)lseek(copy, 0, SEEK_SET);
		(void)dup3(copy, fd, O_CLOEXEC);
	}
	if (copy >= 0)
		(void)close(copy);
	if (in)
		(void)fclose(in);
	if (!out)
		(void)lseek(fd, 0, SEEK_SET);
}
