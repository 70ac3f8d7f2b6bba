// SPDX-License-Identifier: Apache-2.0
/*
 * What an image's config says besides how it is started, in the words that a Dockerfile's
 * instructions have in a manifest of ours. What is not of the form that it should have is left out:
 * none of it is needed to run the image.
 */
#include "oci/oci.h"

#include <string.h>

#define LABELS_BYTES_MAX ((size_t)64 << 10) /* with more of them, they are left out */
#define WORDS_MAX        256
#define SECOND_NS        1000000000LL
#define MILLISECOND_NS   1000000LL

static void take_words(const json_t *from, const char *name, json_t *to, const char *as)
{
	json_t *words = json_object_get(from, name);
	const json_t *word;
	size_t i;

	if (!json_is_array(words) || json_array_size(words) == 0 ||
	    json_array_size(words) > WORDS_MAX)
		return;
	json_array_foreach(words, i, word)
	{
		if (!json_is_string(word))
			return;
	}
	(void)json_object_set(to, as, words);
}

/* {"80/tcp": {}, …}: the names. */
static void take_names(const json_t *from, const char *name, json_t *to, const char *as)
{
	json_t *object = json_object_get(from, name), *names, *value;
	const char *key;

	if (json_object_size(object) == 0 || json_object_size(object) > WORDS_MAX)
		return;
	names = json_array();
	json_object_foreach (object, key, value) {
		(void)value;
		(void)json_array_append_new(names, json_string(key));
	}
	(void)json_object_set_new(to, as, names);
}

static void take_labels(const json_t *from, json_t *to)
{
	json_t *labels = json_object_get(from, "Labels"), *kept, *value;
	const char *key;
	size_t bytes = 0;

	if (json_object_size(labels) == 0)
		return;
	kept = json_object();
	json_object_foreach (labels, key, value) {
		if (!json_is_string(value) || strcmp(key, OCI_LABEL) == 0)
			continue;
		bytes += strlen(key) + json_string_length(value);
		(void)json_object_set(kept, key, value);
	}
	if (json_object_size(kept) > 0 && bytes <= LABELS_BYTES_MAX)
		(void)json_object_set(to, "labels", kept);
	json_decref(kept);
}

static void take_time(const json_t *from, const char *name, json_t *to, const char *as)
{
	const json_int_t ns = json_integer_value(json_object_get(from, name));

	if (ns <= 0)
		return;
	if (ns % SECOND_NS == 0)
		(void)json_object_set_new(to, as,
		                          json_sprintf("%llds", (long long)(ns / SECOND_NS)));
	else
		(void)json_object_set_new(to, as,
		                          json_sprintf("%lldms", (long long)(ns / MILLISECOND_NS)));
}

static void take_healthcheck(const json_t *from, json_t *to)
{
	const json_t *check = json_object_get(from, "Healthcheck");
	const json_int_t retries = json_integer_value(json_object_get(check, "Retries"));
	json_t *made = json_object();

	take_words(check, "Test", made, "test");
	take_time(check, "Interval", made, "interval");
	take_time(check, "Timeout", made, "timeout");
	take_time(check, "StartPeriod", made, "start-period");
	take_time(check, "StartInterval", made, "start-interval");
	if (retries > 0)
		(void)json_object_set_new(made, "retries",
		                          json_sprintf("%lld", (long long)retries));
	if (json_object_get(made, "test"))
		(void)json_object_set(to, "healthcheck", made);
	json_decref(made);
}

json_t *oci_config_facts(const json_t *config)
{
	json_t *facts = json_object();
	const char *signal = oci_text(config, "StopSignal");

	take_names(config, "ExposedPorts", facts, "exposed_ports");
	take_names(config, "Volumes", facts, "volumes");
	take_words(config, "Shell", facts, "shell");
	take_words(config, "OnBuild", facts, "onbuild");
	take_labels(config, facts);
	take_healthcheck(config, facts);
	if (*signal)
		(void)json_object_set_new(facts, "stop_signal", json_string(signal));
	return facts;
}
