// SPDX-License-Identifier: Apache-2.0
/* What the proxy says itself: to the guest, and to the record. */
#include "wall/proxy_inside.h"

#include <stdio.h>
#include <string.h>

void proxy_record(struct proxy *p, enum wall_verdict verdict, const char *why)
{
	const struct host *host = p->is_tls        ? &p->tls_host
	                          : p->has_request ? &p->request.host
	                                           : NULL;

	door_record(p->config.door,
	            &(struct door_record){
			    .verdict = verdict,
			    .rule = p->decision.rule,
			    .name = host && host->is_name ? &host->name : NULL,
			    .address = p->up.t.fd >= 0 ? &p->up_address : &p->config.dialled,
			    .port = p->config.port,
			    .protocol = p->is_tls ? PROTOCOL_TLS : PROTOCOL_HTTP,
			    .is_recorded = p->decision.is_recorded,
			    .why = why,
			    .in_bytes = p->in_bytes,
			    .out_bytes = p->out_bytes,
			    .took_us = loop_now_us(p->loop) - p->started_us,
		    });
}

static const char *reason_of(int status)
{
	switch (status) {
	case 403:
		return "Forbidden";
	case 405:
		return "Method Not Allowed";
	case 501:
		return "Not Implemented";
	case 502:
		return "Bad Gateway";
	default:
		return "Bad Request";
	}
}

void proxy_answer(struct proxy *p, int status, enum wall_verdict verdict, const char *why)
{
	char text[200];

	proxy_record(p, verdict, why);
	proxy_end_close(&p->up);
	buf_done(&p->guest.in);
	(void)snprintf(text, sizeof(text), "cloche's network wall: %s\n", why);
	if (p->has_reply || /* it has begun: there is no other way to say that it is cut */
	    buf_printf(&p->guest.out,
	               "HTTP/1.1 %d %s\r\nX-Cloche-Wall: %s\r\nContent-Type: text/plain\r\n"
	               "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
	               status, reason_of(status), verdict == WALL_DENIED ? "denied" : "failed",
	               strlen(text), text) < 0) {
		proxy_finish(p);
		return;
	}
	proxy_move(p, CLOSING, CLOSING_US);
}

void proxy_respond(struct proxy *p, const struct policy_rule *rule)
{
	const char *body = rule->body ? rule->body : "";
	int r = buf_printf(&p->guest.out, "HTTP/1.1 %u Set by policy\r\nContent-Length: %zu\r\n",
	                   rule->status, strlen(body));

	if (r == 0 && rule->content_type)
		r = http_encode_field(&p->guest.out, "Content-Type", rule->content_type);
	for (size_t i = 0; r == 0 && i < rule->n_headers; i++)
		r = http_encode_field(&p->guest.out, rule->headers[i].name, rule->headers[i].value);
	if (r == 0)
		r = buf_append_str(&p->guest.out, "Connection: close\r\n\r\n");
	if (r == 0 && strcmp(p->request_head.method, "HEAD") != 0)
		r = buf_append_str(&p->guest.out, body);
	proxy_record(p, WALL_ALLOWED, r == 0 ? "" : "its reply does not fit");
	proxy_end_close(&p->up);
	buf_done(&p->guest.in);
	if (r < 0)
		proxy_finish(p);
	else
		proxy_move(p, CLOSING, CLOSING_US);
}
