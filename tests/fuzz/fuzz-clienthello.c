// SPDX-License-Identifier: Apache-2.0
/*
 * The ClientHello reader. The first byte chooses the step in which the rest is fed; whatever it is,
 * the outcome must be that of feeding all at once, and a name must be canonical.
 */
#include "net/packet/clienthello.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run(const uint8_t *data, size_t size, size_t step, struct clienthello *ret,
               const char **why)
{
	struct clienthello_reader r;
	int result = CLIENTHELLO_MORE;

	*ret = (struct clienthello){0};
	clienthello_init(&r, ret);
	for (size_t at = 0; at < size && result == CLIENTHELLO_MORE; at += step)
		result = clienthello_feed(&r, data + at, MIN(step, size - at), why);
	clienthello_done(&r);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct clienthello whole, cut;
	struct hostname again;
	const char *why_whole = NULL, *why_cut = NULL;
	int result;

	if (size < 2 || size > 2 * CLIENTHELLO_MAX)
		return 0;
	result = run(data + 1, size - 1, size, &whole, &why_whole);
	assert(run(data + 1, size - 1, data[0] % 31U + 1, &cut, &why_cut) == result);
	assert(why_whole == why_cut);
	assert(whole.has_name == cut.has_name && strcmp(whole.name.text, cut.name.text) == 0);
	assert(whole.version == cut.version && whole.has_ech == cut.has_ech);
	if (whole.has_name) {
		assert(result == CLIENTHELLO_DONE);
		assert(hostname_parse(whole.name.text, whole.name.len, &again, NULL) == 0);
		assert(hostname_is_equal(&whole.name, &again));
	}
	return 0;
}
