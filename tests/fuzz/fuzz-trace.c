// SPDX-License-Identifier: Apache-2.0
/* The header fields `traceparent` and `tracestate`, a line each. What is taken must come out again
 * as one that is taken. */
#include "telemetry/trace_context.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xstrndup((const char *)data, size), *state = strchr(text, '\n');
	struct trace_context c, again;
	char made[TRACEPARENT_SIZE];

	if (state)
		*state++ = '\0';
	if (trace_context_parse(text, &c) == 0) {
		trace_context_format(c.trace_id, c.span_id, c.is_sampled, made);
		if (trace_context_parse(made, &again) < 0 ||
		    memcmp(c.trace_id, again.trace_id, sizeof(c.trace_id)) != 0 ||
		    memcmp(c.span_id, again.span_id, sizeof(c.span_id)) != 0 ||
		    c.is_sampled != again.is_sampled)
			abort();
	}
	if (state && trace_state_is_valid(state) && strlen(state) >= TRACESTATE_SIZE)
		abort();
	free(text);
	return 0;
}
