// SPDX-License-Identifier: Apache-2.0
#include "oci/oci.h"

#include "test.h"

#include <stdio.h>
#include <string.h>

#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define D   "\"sha256:" HEX "\""
#define OTHER                                                                                      \
	"\"sha256:ff"                                                                              \
	"112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\""
#define IMAGE "application/vnd.oci.image.manifest.v1+json"
#define INDEX "application/vnd.oci.image.index.v1+json"
#define CONFIG                                                                                     \
	"{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":" D ",\"size\":9}"

static json_t *parse(const char *text)
{
	json_t *json = NULL;
	struct err err = {0};

	CHECK_INT(json_parse(text, strlen(text), &json, &err), 0);
	return json;
}

/* What choosing from an index comes to: the message, or "" and the blob. */
static const char *choose(const char *text, const char *ref, struct oci_blob *ret)
{
	static struct err err;
	auto_json json_t *json = parse(text);
	const struct oci_wish wish = {.arch = "amd64", .ref = ref};

	err = (struct err){0};
	return oci_choose(json, &wish, ret, &err) < 0 ? err.message : "";
}

#define ONE(type, digest, more)                                                                    \
	"{\"mediaType\":\"" type "\",\"digest\":" digest ",\"size\":7" more "}"
#define PLATFORM(arch)  ",\"platform\":{\"os\":\"linux\",\"architecture\":\"" arch "\"}"
#define REF(name)       ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"" name "\"}"
#define INDEX_OF(items) "{\"manifests\":[" items "]}"

TEST(of_several_machines_images_this_machines_is_chosen)
{
	struct oci_blob blob;

	CHECK_STR(choose(INDEX_OF(ONE(IMAGE, OTHER, PLATFORM("arm64")) "," ONE(
				 IMAGE, D, PLATFORM("amd64")) "," ONE("x/y", OTHER,
	                                                              PLATFORM("unknown"))),
	                 NULL, &blob),
	          "");
	CHECK_INT(blob.digest.bytes[0], 0);
	CHECK_INT(blob.bytes, 7);
	CHECK(!blob.is_index);
}

TEST(who_has_no_image_for_this_machine_is_told_which_there_are)
{
	struct oci_blob blob;

	CHECK_STR(choose(INDEX_OF(ONE(IMAGE, D, PLATFORM("arm64")) "," ONE(IMAGE, OTHER,
	                                                                   PLATFORM("s390x"))),
	                 NULL, &blob),
	          "image: it is for arm64, s390x, and this machine is amd64");
}

TEST(one_of_several_images_is_named_by_name_or_tag)
{
	static const char two[] =
		INDEX_OF(ONE(IMAGE, D, REF("app:1")) "," ONE(IMAGE, OTHER, REF("app:2")));
	struct oci_blob blob;

	CHECK_STR(choose(two, NULL, &blob),
	          "image: there are several: app:1, app:2; say which (ref)");
	CHECK_STR(choose(two, "app:2", &blob), "");
	CHECK_INT(blob.digest.bytes[0], 0xff);
	CHECK_STR(choose(two, "1", &blob), "");
	CHECK_INT(blob.digest.bytes[0], 0);
	CHECK_STR(choose(two, "3", &blob),
	          "image: nothing in it is named '3'; it has: app:1, app:2");
}

TEST(an_index_in_an_index_is_told_as_one)
{
	struct oci_blob blob;

	CHECK_STR(choose(INDEX_OF(ONE(INDEX, D, "")), NULL, &blob), "");
	CHECK(blob.is_index);
}

TEST(what_an_index_may_not_say_is_refused_by_name)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"{}", "image: the index has no list 'manifests'"},
		{INDEX_OF(""), "image: the index has no image"},
		{INDEX_OF(ONE("a/b", D, "")),
	         "image: 'a/b' is no type of image that is known here"},
		{INDEX_OF("{\"mediaType\":\"" IMAGE "\",\"digest\":" D ",\"size\":-1}"),
	         "image: a manifest's size is missing, or over 4 MiB"},
		{INDEX_OF("{\"mediaType\":\"" IMAGE "\",\"digest\":" D ",\"size\":4194305}"),
	         "image: a manifest's size is missing, or over 4 MiB"},
		{INDEX_OF(ONE(IMAGE, "\"md5:00\"", "")),
	         "image: a manifest: 'md5:00' is no SHA-256 digest"},
		{INDEX_OF(ONE(IMAGE, "7", "")), "image: a manifest has no digest"},
	};
	struct oci_blob blob;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(choose(rows[i].text, NULL, &blob), rows[i].message);
}

TEST(a_manifest_names_its_layers_in_order)
{
	auto_json json_t *json =
		parse("{\"schemaVersion\":2,\"config\":" CONFIG ",\"layers\":["
	              "{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":" OTHER
	              ",\"size\":1},{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+zstd\","
	              "\"digest\":" D ",\"size\":2}]}");
	struct oci_manifest m;
	struct err err;

	CHECK_INT(oci_read_manifest(json, &m, &err), 0);
	CHECK_INT(m.n_layers, 2);
	CHECK_INT(m.layers[0].digest.bytes[0], 0xff);
	CHECK_INT(m.layers[1].bytes, 2);
	oci_manifest_done(&m);
}

TEST(a_layer_of_an_unknown_type_is_refused_by_name)
{
	auto_json json_t *json =
		parse("{\"schemaVersion\":2,\"config\":" CONFIG
	              ",\"layers\":[{\"mediaType\":\"x/secret\",\"digest\":" D ",\"size\":1}]}");
	struct oci_manifest m;
	struct err err;

	CHECK(oci_read_manifest(json, &m, &err) < 0);
	CHECK_STR(err.message, "image: a layer is of the unknown type 'x/secret'");
}

static const char *defaults_of(const char *inner)
{
	static char text[512];
	auto_free char *whole = xasprintf("{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":"
	                                  "%s,\"rootfs\":{\"diff_ids\":[" D "]}}",
	                                  inner);
	auto_json json_t *json = parse(whole);
	struct oci_config config;
	struct err err;
	char *dump;

	if (oci_read_config(json, "amd64", &config, &err) < 0) {
		(void)snprintf(text, sizeof(text), "%s", err.message);
		return text;
	}
	dump = json_dumps(config.defaults, JSON_COMPACT | JSON_SORT_KEYS);
	(void)snprintf(text, sizeof(text), "%s", dump);
	free(dump);
	oci_config_done(&config);
	return text;
}

TEST(a_config_tells_variables_user_directory_and_words)
{
	CHECK_STR(
		defaults_of(
			"{\"Env\":[\"A=b=c\",\"E=\"],\"User\":\"app:staff\",\"WorkingDir\":\"/w\","
			"\"Entrypoint\":[\"/e\"],\"Cmd\":[\"x\",\"y\"]}"),
		"{\"cmd\":[\"x\",\"y\"],\"cwd\":\"/w\",\"entrypoint\":[\"/e\"],"
		"\"env\":{\"A\":\"b=c\",\"E\":\"\"},\"user\":\"app:staff\"}");
	CHECK_STR(defaults_of("null"), "{\"user\":\"root\"}");
	CHECK_STR(defaults_of("{\"User\":\"0:0\",\"Cmd\":null,\"Env\":null}"),
	          "{\"user\":\"root\"}");
	CHECK_STR(defaults_of("{\"Env\":[\"=x\"]}"),
	          "image: a variable of the config is not NAME=value");
	CHECK_STR(defaults_of("{\"Cmd\":[1]}"), "image: a word of the config's Cmd is no text");
}

TEST(a_config_tells_what_a_dockerfile_has_said_and_leaves_out_what_it_could_not_say)
{
	CHECK_STR(defaults_of("{\"ExposedPorts\":{\"80/tcp\":{}},\"Volumes\":{\"/d\":{}},"
	                      "\"Labels\":{\"a\":\"b\"},\"StopSignal\":\"SIGINT\",\"OnBuild\":"
	                      "[\"RUN x\"],\"Healthcheck\":{\"Test\":[\"NONE\"],\"Interval\":"
	                      "1500000000,\"Timeout\":3000000000,\"Retries\":2}}"),
	          "{\"config\":{\"exposed_ports\":[\"80/tcp\"],\"healthcheck\":{\"interval\":"
	          "\"1500ms\",\"retries\":\"2\",\"test\":[\"NONE\"],\"timeout\":\"3s\"},"
	          "\"labels\":{\"a\":\"b\"},\"onbuild\":[\"RUN x\"],\"stop_signal\":\"SIGINT\","
	          "\"volumes\":[\"/d\"]},\"user\":\"root\"}");
	CHECK_STR(defaults_of("{\"ExposedPorts\":[1],\"Labels\":{\"a\":1},\"Shell\":[],"
	                      "\"OnBuild\":[{}],\"Healthcheck\":7,\"StopSignal\":9}"),
	          "{\"user\":\"root\"}");
}

TEST(an_image_for_another_machine_is_refused_with_both_names)
{
	auto_json json_t *json =
		parse("{\"architecture\":\"arm64\",\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[]}}");
	struct oci_config config;
	struct err err;

	CHECK(oci_read_config(json, "amd64", &config, &err) < 0);
	CHECK_STR(err.message,
	          "image: it is for linux on arm64, and this machine is linux on amd64");
}

TEST(of_docker_save_the_tag_chooses)
{
	auto_json json_t *json =
		parse("[{\"Config\":\"a\",\"RepoTags\":[\"app:1\"],\"Layers\":[\"l\"]},"
	              "{\"Config\":\"b\",\"RepoTags\":null,\"Layers\":[]}]");
	struct oci_saved saved;
	struct err err;

	CHECK_INT(oci_choose_saved(json, "1", &saved, &err), 0);
	CHECK_STR(saved.config, "a");
	CHECK_STR(saved.layers[0], "l");
	oci_saved_done(&saved);
	CHECK(oci_choose_saved(json, NULL, &saved, &err) < 0);
	CHECK_STR(err.message, "image: there are several: app:1; say which (ref)");
}
