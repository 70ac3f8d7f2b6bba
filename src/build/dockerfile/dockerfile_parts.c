// SPDX-License-Identifier: Apache-2.0
/* The parts of a plan, and the scripts in them. */
#include "build/dockerfile/dockerfile_private.h"

#include "base/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define TITLE_LEN 160

void docker_open_part(struct stage *s)
{
	if (s->part)
		return;
	s->part = json_pack("{sis{}s[]s[]s[]}", "stage", (int)s->index, "files", "run", "copies",
	                    "carries");
	s->part_bytes = 0;
	if (s->is_tree)
		(void)json_object_set_new(s->part, "tree", json_true());
	(void)json_array_append_new(s->plan->parts, s->part);
}

int docker_add_file(struct stage *s, const char *path, const char *content, struct err *err)
{
	json_t *text = json_string(content);

	s->part_bytes += strlen(path) + strlen(content) * 4 / 3;
	if (!text)
		return stage_error(s, err, "is no text in UTF-8");
	(void)json_object_set_new(json_object_get(s->part, "files"), path, text);
	if (s->part_bytes > SCRIPT_MAX)
		return stage_error(s, err,
		                   "the instructions up to the next RUN have more than %d bytes: "
		                   "put scripts into files and COPY them",
		                   SCRIPT_MAX);
	return 0;
}

/* "line 7: RUN apt-get install …", in one line. */
static char *make_title(const struct stage *s)
{
	char *title = xasprintf("line %u: %s %.*s", s->in->line, instruction_name(s->in->kind),
	                        TITLE_LEN, s->in->text);
	size_t len = strlen(title);

	while (len > 0 && ((unsigned char)title[len - 1] & 0xc0) == 0x80)
		len--; /* not in the middle of a character */
	if (len > 0 && (unsigned char)title[len - 1] >= 0xc0)
		len--;
	if (!utf8_is_valid(title, strlen(title)))
		title[len] = '\0';
	for (char *c = title; *c; c++)
		if ((unsigned char)*c < 0x20)
			*c = ' ';
	return title;
}

int docker_add_step(struct stage *s, const struct buf *script, bool is_last, struct err *err)
{
	json_t *run = json_object_get(s->part, "run");
	auto_free char *title = make_title(s);
	char path[sizeof(DOCKER_STEPS) + 16];
	int r;

	(void)snprintf(path, sizeof(path), DOCKER_STEPS "/%u", ++s->plan->number);
	r = docker_add_file(s, path, buf_str(script), err);
	if (r < 0)
		return r;
	(void)json_array_append_new(run, json_string(title));
	(void)json_array_append_new(run, json_string(path));
	if (is_last)
		s->part = NULL;
	return 0;
}

int docker_find_stage(const struct plan *p, const char *word)
{
	auto_free char *lower = xstrdup(word);
	const json_t *found;
	uint64_t number;

	for (char *c = lower; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	found = json_object_get(p->stage_names, lower);
	if (found)
		return (int)json_integer_value(found);
	if (parse_u64(word, STAGES_MAX, &number) == 0 && number < json_array_size(p->stages))
		return (int)number;
	return -1;
}
