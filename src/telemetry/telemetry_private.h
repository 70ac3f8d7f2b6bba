// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Shared by the files of src/telemetry. */
#include "base/json/json.h"
#include "base/list.h"
#include "event/rate.h"
#include "telemetry/telemetry.h"

#define SPAN_ATTRIBUTES_MAX 12
#define WHY_SIZE            160

struct span_attribute {
	const char *name;
	char *text; /* NULL: a number */
	int64_t number;
};

struct span {
	struct list link; /* of the queue, once it has ended */
	struct telemetry *telemetry;
	const char *name;
	const char *method; /* of a request; NULL: what was done for one */
	uint8_t trace_id[TRACE_ID_LEN], id[SPAN_ID_LEN], parent_id[SPAN_ID_LEN]; /* zero: none */
	uint64_t begun_us, ended_us, part_us; /* wall clock; part_us: when the last part ended */
	const char *error;                    /* NULL: none */
	struct span_attribute attributes[SPAN_ATTRIBUTES_MAX];
	size_t n_attributes;
};
void span_free(struct span *s);

struct log_record {
	struct list link;
	uint64_t at_us;
	enum log_level level;
	bool has_trace;
	uint8_t trace_id[TRACE_ID_LEN], span_id[SPAN_ID_LEN];
	size_t len;
	char line[]; /* JSON, as in the log */
};

/*
 *	idle --> encoding --> sending --> idle
 *	             ^          |  ^
 *	             |          v  |
 *	  (what it had is gone) waiting, to try again
 */
enum sender_state { SENDER_IDLE, SENDER_ENCODING, SENDER_SENDING, SENDER_WAITING };

/* One of the three: its queue, the batch that is being sent, and what became of earlier ones. */
struct sender {
	struct telemetry *telemetry;
	const struct signal_kind *kind; /* NULL: this one is not sent */
	enum sender_state state;
	char *url;
	struct list queue;
	size_t n_queue, n_queue_bytes;
	struct buf body;
	struct json_writer writer;
	size_t n_body; /* items in it */
	size_t group;  /* of metrics: the next one */
	struct outgoing_call *call;
	struct loop_job *encoder;
	struct loop_timer *timer; /* the next batch, or the next attempt */
	unsigned attempts;
	uint64_t failing_since_us; /* steady; 0: the last one was accepted */
	char why[WHY_SIZE];
	uint64_t n_sent, n_dropped, n_failed;
};

struct signal_kind {
	const char *path, *resources, *scopes, *items, *rejected; /* names in OTLP */
	/* Encodes one more item, or one more group; false: the batch is complete. */
	bool (*put)(struct sender *s);
	void (*free_item)(struct list *link); /* NULL: there is no queue */
	size_t (*size_of)(const struct list *link);
	bool is_renewed; /* a batch that failed is made anew, not kept */
};
extern const struct signal_kind signal_kinds[TELEMETRY_SIGNALS];

struct telemetry {
	struct telemetry_config config;
	char *host_name;
	struct sender senders[TELEMETRY_SIGNALS];
	const struct trace *current;
	struct rate rate;             /* of traces, by project */
	struct loop_timer *rate_look; /* NULL: no traces */
	uint64_t n_over_rate;
	uint64_t started_us; /* wall clock */
	/* while what waits is sent at the end */
	loop_fn flushed;
	void *flushed_arg;
	struct loop_timer *flush_end;
};

/* sender.c */
void sender_open(struct sender *s, struct telemetry *t, enum telemetry_signal which);
void sender_close(struct sender *s);
/* Drops the oldest where there is no room. */
void sender_add(struct sender *s, struct list *link);
void sender_send_now(struct sender *s);
bool sender_is_busy(const struct sender *s); /* something waits or is under way */

/* otlp.c */
void otlp_begin(struct sender *s);
void otlp_end(struct sender *s); /* a failure is in its writer */
void otlp_put_attribute(struct json_writer *w, const char *name, const char *text);
void otlp_put_time(struct json_writer *w, const char *name, uint64_t us);

/* otlp_metrics.c */
bool otlp_put_metrics(struct sender *s);

/* telemetry.c */
void telemetry_on_idle(struct telemetry *t); /* of a sender */
