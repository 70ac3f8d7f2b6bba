// SPDX-License-Identifier: Apache-2.0
/* What a build's sandbox prints, in two pieces: what is kept is bounded, and can be shown. */
#include "base/parse.h"
#include "build/recipe/report.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_log(const char *line, size_t len, void *arg)
{
	(void)arg;
	assert(len < REPORT_LINE_MAX && strlen(line) == len && utf8_is_valid(line, len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct report out;
	size_t cut = size > 0 ? data[0] % size : 0;

	report_init(&out, on_log, NULL);
	report_feed(&out, (const char *)data, cut);
	report_feed(&out, (const char *)data + cut, size - cut);
	report_end(&out);
	assert(out.permille <= 1000 && out.bytes_done <= out.bytes_total);
	report_done(&out);
	return 0;
}
