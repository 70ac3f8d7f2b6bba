// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Reads the output of a step's script line by line. Lines that begin with "cloche:" are the
 * script's answers (guest/build), apt's status lines are progress, all others go to the log. It
 * comes from a sandbox and is not trusted: a line of another form is part of the log, each kept
 * text is bounded, and answers are only shown or hashed.
 *
 *	cloche:state HASH           cloche:date SECONDS
 *	cloche:package<TAB>KIND<TAB>NAME<TAB>VERSION<TAB>LICENCE
 *	cloche:language<TAB>NAME<TAB>VERSION
 *	cloche:content<TAB>NUMBER<TAB>HASH
 *	cloche:registry<TAB>KIND<TAB>URL, or the name of a host
 *	dlstatus:N:PERCENT:TEXT     pmstatus:PACKAGE:PERCENT:TEXT
 *	Need to get 43.0 MB of archives.
 */
#include "base/json/json.h"

#define REPORT_LINE_MAX     1024 /* the rest of a longer line is dropped */
#define REPORT_PACKAGES_MAX 8192
#define REPORT_CONTENTS_MAX 4096

struct registries { /* "" = not known */
	char npm[256], pip[256];
	char pip_files[256]; /* the host that pip's index has its files at */
};

struct report {
	char line[REPORT_LINE_MAX];
	size_t len;
	/* answers; "" and 0 until they come */
	char state[65];
	uint64_t date;
	json_t *packages;  /* array of {kind, name, version, licence} */
	json_t *languages; /* object: name to version */
	json_t *contents;  /* object: number of a COPY to a hash */
	struct registries registries;
	/* progress */
	uint64_t bytes_total, bytes_done; /* of the downloads; 0 = not known */
	unsigned permille;                /* of installing */
	char doing[120];                  /* the last progress text */
	/* why it failed: its last error line, else its last line */
	char error[240], last[240];
	/* Each line of the log, without its end. */
	void (*on_log)(const char *line, size_t len, void *arg);
	void *arg;
};

void report_init(struct report *o, void (*on_log)(const char *line, size_t len, void *arg),
                 void *arg);
void report_done(struct report *o);
void report_feed(struct report *o, const char *data, size_t len);
void report_end(struct report *o); /* a last line without an end counts too */
