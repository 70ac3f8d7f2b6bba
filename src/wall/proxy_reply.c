// SPDX-License-Identifier: Apache-2.0
/* The proxy's own replies to the guest, and its reports to the gateway. */
#include "wall/proxy_private.h"

#include <stdio.h>
#include <string.h>

void proxy_record(struct proxy *p, enum wall_verdict verdict, const char *why)
{
	const struct host *host = p->is_tls        ? &p->tls_host
	                          : p->has_request ? &p->request.host
	                                           : NULL;

	if (p->config.refusal)
		return;
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
	case 403: /* npm, pip and apt show no more of a reply than this */
		return "Blocked by the network policy of this sandbox";
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

/* pip ignores a refused page of its index, but reports a page whose type it cannot read. */
static bool is_pips_index(const struct proxy *p, int status)
{
	const char *accept = http_head_find(&p->request_head, "accept");
	const char *agent = http_head_find(&p->request_head, "user-agent");

	return status == 403 && p->has_request && accept && agent &&
	       strncmp(agent, "pip/", 4) == 0 &&
	       strstr(accept, "application/vnd.pypi.simple") != NULL;
}

void proxy_text(const struct proxy *p, int status, const char *why, char ret[PROXY_TEXT_SIZE])
{
	const struct host *host = p->is_tls ? &p->tls_host : &p->request.host;
	char name[HOST_SIZE];

	if (status != 403) {
		(void)snprintf(ret, PROXY_TEXT_SIZE, "cloche's network wall: %s\n", why);
		return;
	}
	host_format(host, name);
	(void)snprintf(ret, PROXY_TEXT_SIZE,
	               "The network policy of this sandbox does not let it reach %s port %u: %s. "
	               "It stays so until the policy is changed from outside, such as by "
	               "`cloche network allow SANDBOX %s`.\n",
	               name, p->config.port, why, name);
}

void proxy_answer(struct proxy *p, int status, enum wall_verdict verdict, const char *why)
{
	char text[PROXY_TEXT_SIZE];
	bool for_pip;

	proxy_record(p, verdict, why);
	proxy_end_close(&p->up);
	buf_done(&p->guest.in);
	proxy_text(p, status, why, text);
	for_pip = is_pips_index(p, status);
	if (p->has_reply || /* it has begun: cutting it is the only way to report a failure */
	    (verdict == WALL_DENIED && p->config.door->policy->resets) ||
	    buf_printf(&p->guest.out,
	               "HTTP/1.1 %d %s\r\nX-Cloche-Wall: %s\r\nContent-Type: text/plain%s%s\r\n"
	               "Cache-Control: no-store\r\nContent-Length: %zu\r\n"
	               "Connection: close\r\n\r\n%s",
	               for_pip ? 200 : status, reason_of(status),
	               verdict == WALL_DENIED ? "denied" : "failed", for_pip ? "; " : "",
	               for_pip ? reason_of(status) : "", strlen(text), text) < 0) {
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
