// SPDX-License-Identifier: Apache-2.0
#include "api/code/code_reader.h"

#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/wake.h"
#include "api/handlers.h"

int code_reader_new(const struct code_reader_spec *spec, struct sandbox *s,
                    struct code_reader **ret, struct err *err)
{
	return spec->format == EVENTS_NONE ? code_result_new(spec, s, ret, err)
	                                   : code_events_new(spec, s, ret, err);
}

int run_code(struct http_req *req, struct err *err)
{
	struct code_spec code;
	struct code_reader_spec spec = {.req = req, .code = &code, .format = event_format_of(req)};
	struct code_reader *reader;
	struct sandbox *s;
	int r = check_accept(req, result_types, err);

	if (r == 0)
		r = body_read_code(http_json(req), &code, err);
	if (r == 0)
		r = find_awake(req, &s, err);
	if (r != 0)
		return r;
	return code_reader_new(&spec, s, &reader, err);
}
