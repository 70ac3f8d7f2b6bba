// SPDX-License-Identifier: Apache-2.0
/*
 * Checks a sealed export, without any daemon: each entry against its hash, each chain for what is
 * missing or put in, and each chain's end against a seal of the key that the caller trusts.
 */
#include "cli/frame/command.h"
#include "cli/remote/lines.h"
#include "event/seal.h"
#include "event/verify.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define LINE_MAX_BYTES 65536
#define PEM_MAX        4096
#define TREE_DEPTH_MAX 16
#define SEAL_START     "{\"statement\":"

struct audit_check {
	const char *key_file;
	char pem[PEM_MAX];
	uint64_t n_lines, n, n_seals,
		n_late;  /* n_late: chains that begin after what was removed in order */
	size_t top_len;  /* of the directory, which errors leave out */
	uint64_t n_gaps; /* that seals tell */
	uint64_t at_us;  /* of the newest seal */
	struct chain_export *export;
	json_t *statements; /* by chain */
};

/* A store that was out of reach for longer than entries are kept has a hole, which is sealed. */
static int take_gap(struct audit_check *check, const char *chain, const json_t *statement,
                    struct err *err)
{
	const json_t *head = json_object_get(statement, "head");

	if (!json_is_integer(json_object_get(statement, "gap_after")))
		return 0;
	check->n_gaps++;
	return chain_export_skip(check->export, chain, command_number(statement, "gap_after"),
	                         command_number(head, "seq"), command_text(head, "hash"), err);
}

static int take_seal(struct audit_check *check, const char *line, size_t len, struct err *err)
{
	auto_json json_t *seal = NULL, *statement = NULL;
	const char *text;
	char name[CHAIN_NAME_SIZE];
	int r = json_parse(line, len, &seal, err);

	if (r < 0)
		return err_prefix(err, "a seal");
	text = command_text(seal, "statement");
	r = seal_verify(check->pem, text, command_text(seal, "signature"), err);
	if (r == 0)
		r = json_parse(text, strlen(text), &statement, err);
	if (r < 0)
		return r;
	chain_name(name, command_text(statement, "project_id"),
	           json_is_true(json_object_get(statement, "former")),
	           json_is_true(json_object_get(statement, "audit")));
	check->n_seals++;
	check->at_us = MAX(check->at_us, command_number(statement, "at_us"));
	(void)json_object_set(check->statements, name, statement);
	return take_gap(check, name, statement, err);
}

static int take_line(void *arg, const char *line, size_t len, struct err *err)
{
	struct audit_check *check = arg;
	struct chain_link link;
	int r;

	check->n_lines++;
	if (len > strlen(SEAL_START) && memcmp(line, SEAL_START, strlen(SEAL_START)) == 0) {
		r = take_seal(check, line, len, err);
	} else {
		r = chain_check_line(line, len, &link, err);
		if (r == 0)
			r = chain_export_add(check->export, &link, /* is_partial= */ false, err);
		check->n += r == 0;
	}
	return r < 0 ? err_prefix(err, "line %" PRIu64, check->n_lines) : 0;
}

/* What the export has of a chain must end where the seal says, and begin behind its anchor, or
 * later where it was asked for a part. */
static int check_chain(struct audit_check *check, const struct chain_seen *seen,
                       const json_t *statement, struct err *err)
{
	const json_t *head = json_object_get(statement, "head");
	const json_t *anchor = json_object_get(statement, "anchor");

	if (!seen)
		return command_number(statement, "count") == 0
		               ? 0
		               : err_set(err, ERR_CONFLICT, 0, "all of its entries are missing");
	if (seen->last.seq != command_number(head, "seq") ||
	    strcmp(seen->last.hash, command_text(head, "hash")) != 0)
		return err_set(err, ERR_CONFLICT, 0,
		               "its end is missing or altered: the seal is of entry %" PRIu64
		               ", the last one here is %" PRIu64,
		               command_number(head, "seq"), seen->last.seq);
	if (seen->first.seq == command_number(anchor, "seq") + 1 &&
	    strcmp(seen->first.prev, command_text(anchor, "hash")) != 0)
		return err_set(err, ERR_CONFLICT, 0, "its beginning was altered");
	check->n_late += seen->first.seq > command_number(anchor, "seq") &&
	                 strcmp(seen->first.prev, command_text(anchor, "hash")) != 0;
	return 0;
}

static int check_seals(struct audit_check *check, struct err *err)
{
	const char *name;
	json_t *statement;
	size_t n_sealed = 0;

	json_object_foreach (check->statements, name, statement) {
		const struct chain_seen *seen = chain_export_find(check->export, name);
		int r = check_chain(check, seen, statement, err);

		if (r < 0)
			return err_prefix(err, "the chain '%s'", name);
		n_sealed += seen != NULL;
	}
	if (n_sealed < chain_export_count(check->export) || check->n_seals == 0)
		return err_set(
			err, ERR_CONFLICT, 0,
			"a chain has no seal: lines were removed, or it is no sealed export");
	return 0;
}

static int read_key(struct audit_check *check, struct err *err)
{
	ssize_t n;
	auto_fd int fd = check->key_file ? open(check->key_file, O_RDONLY | O_CLOEXEC) : -1;

	if (!check->key_file)
		return err_field(err, "--key",
		                 "is needed: the file with the public key, which "
		                 "'cloche audit key' prints");
	n = fd < 0 ? -1 : read(fd, check->pem, sizeof(check->pem) - 1);
	if (n < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", check->key_file);
	check->pem[n] = '\0';
	return seal_check_key(check->pem, err);
}

static int read_export(struct audit_check *check, const char *path, unsigned depth,
                       struct err *err);

static int is_no_dot(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* A tree of objects, as the daemon pushes them: by their names they are in order. */
static int read_tree(struct audit_check *check, const char *path, unsigned depth, struct err *err)
{
	struct dirent **entries = NULL;
	int n = depth < TREE_DEPTH_MAX ? scandir(path, &entries, is_no_dot, alphasort) : -1;
	int r = n < 0 ? err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", path) : 0;

	for (int i = 0; i < n; i++) {
		auto_free char *below = xasprintf("%s/%s", path, entries[i]->d_name);

		if (r == 0)
			r = read_export(check, below, depth + 1, err);
		free(entries[i]);
	}
	free(entries);
	return r;
}

static int read_export(struct audit_check *check, const char *path, unsigned depth, struct err *err)
{
	bool is_stdin = depth == 0 && strcmp(path, "-") == 0;
	auto_fd int fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	struct stat st = {0};
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", path);
	if (S_ISDIR(st.st_mode))
		return read_tree(check, path, depth, err);
	check->n_lines = 0; /* they are counted in each file */
	r = lines_read_fd(fd, LINE_MAX_BYTES, take_line, check, err);
	return r < 0 && depth > 0 ? err_prefix(err, "%s", path + check->top_len + 1) : r;
}

static void tell(const struct command *c, const struct audit_check *check)
{
	const time_t seconds = (time_t)(check->at_us / 1000000);
	struct tm tm = {0};
	char when[40];

	(void)gmtime_r(&seconds, &tm);
	(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (c->common.json)
		printf("{\"entries\":%" PRIu64 ",\"chains\":%zu,\"sealed_at_us\":%" PRIu64
		       ",\"begin_later\":%" PRIu64 ",\"gaps\":%" PRIu64 "}\n",
		       check->n, chain_export_count(check->export), check->at_us, check->n_late,
		       check->n_gaps);
	else
		printf("%" PRIu64 " entries of %zu chains are as they were written, sealed %s by "
		       "this key\n",
		       check->n, chain_export_count(check->export), when);
	if (check->n_late > 0 && !c->common.json)
		printf("%" PRIu64 " of the chains begin later than what the daemon had: a part was "
		       "exported\n",
		       check->n_late);
	if (check->n_gaps > 0 && !c->common.json)
		printf("%" PRIu64 " gaps: the daemon had to remove entries before it could push "
		       "them, and says so\n",
		       check->n_gaps);
}

static int verify(struct command *c, struct err *err)
{
	struct audit_check *check = c->arg;
	int r = read_key(check, err);

	check->top_len = strlen(c->words[0]);
	check->export = chain_export_new();
	check->statements = json_object();
	if (r == 0)
		r = read_export(check, c->words[0], 0, err);
	if (r == 0)
		r = check_seals(check, err);
	if (r == 0)
		tell(c, check);
	chain_export_free(check->export);
	json_decref(check->statements);
	return r;
}

int cmd_audit_verify(int argc, char **argv)
{
	struct audit_check check = {0};
	const struct opt rows[] = {
		{0, "key", OPT_TEXT, &check.key_file, "PUB",
	         "file with the public key that 'cloche audit key' has printed"},
	};
	const struct manual manual = {
		.name = "audit verify",
		.synopsis = "--key PUB FILE",
		.about = "Checks a sealed export (- for stdin), or a directory with what a daemon "
			 "has "
			 "pushed to a store: that\nno entry was changed, removed or put in, and "
			 "that "
			 "it is the daemon's whose key it is. It needs no daemon.",
		.examples = "  cloche audit verify --key audit.pub audit.jsonl\n"
			    "  cloche audit verify --key audit.pub downloaded/",
		.min_words = 1,
		.max_words = 1,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main_offline(&manual, argc, argv, verify, &check);
}
