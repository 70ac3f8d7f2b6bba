// SPDX-License-Identifier: Apache-2.0
#include "backup/manifest.h"

#include "base/json/json.h"

#include <string.h>

#define PARTS_MAX  (16U << 20)
#define CHUNKS_MAX (64U << 20)

static const char *const kinds[] = {[PART_DIRECTORY] = "directory",
                                    [PART_FILE] = "file",
                                    [PART_LINK] = "link",
                                    [PART_SUBVOLUME] = "subvolume"};

void manifest_done(struct manifest *m)
{
	for (size_t i = 0; i < m->n_parts; i++) {
		free(m->parts[i].path);
		free(m->parts[i].target);
		free(m->parts[i].parent);
		free(m->parts[i].chunks);
	}
	free(m->parts);
	free(m->version);
	free(m->arch);
	free(m->kernel);
	*m = (struct manifest){0};
}

struct part *manifest_add(struct manifest *m, enum part_kind kind, const char *path)
{
	struct part *p;

	if ((m->n_parts & (m->n_parts + 1)) == 0) /* at 0, 1, 3, 7, …: room for as many again */
		m->parts = xrealloc(m->parts, (2 * m->n_parts + 1) * sizeof(*m->parts));
	p = &m->parts[m->n_parts++];
	*p = (struct part){.kind = kind, .path = xstrdup(path)};
	return p;
}

const struct part *manifest_find(const struct manifest *m, const char *path)
{
	for (size_t i = 0; i < m->n_parts; i++)
		if (strcmp(m->parts[i].path, path) == 0)
			return &m->parts[i];
	return NULL;
}

void part_add_chunk(struct part *p, const struct digest *digest)
{
	if ((p->n_chunks & (p->n_chunks + 1)) == 0)
		p->chunks = xrealloc(p->chunks, (2 * p->n_chunks + 1) * sizeof(*p->chunks));
	p->chunks[p->n_chunks++] = *digest;
}

uint64_t manifest_bytes(const struct manifest *m)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < m->n_parts; i++)
		bytes += m->parts[i].bytes;
	return bytes;
}

static void put_chunks(struct json_writer *w, const struct part *p)
{
	json_put_u64(w, "bytes", p->bytes);
	json_open_array(w, "chunks");
	for (size_t i = 0; i < p->n_chunks; i++) {
		char hex[DIGEST_HEX];

		digest_to_hex(&p->chunks[i], hex);
		json_put_str(w, NULL, hex);
	}
	json_close_array(w);
}

static void put_part(struct json_writer *w, const struct part *p)
{
	json_open_object(w, NULL);
	json_put_str(w, "kind", kinds[p->kind]);
	json_put_str(w, "path", p->path);
	if (p->kind == PART_DIRECTORY || p->kind == PART_FILE) {
		json_put_u64(w, "mode", p->mode);
		json_put_str(w, "owner", p->is_gateways ? "gateway" : "root");
	}
	if (p->kind == PART_LINK)
		json_put_str(w, "target", p->target);
	if (p->kind == PART_SUBVOLUME) {
		json_put_str(w, "stream_uuid", p->stream_uuid);
		json_put_str(w, "source_uuid", p->source_uuid);
		json_put_u64(w, "source_transid", p->source_transid);
		if (p->parent)
			json_put_str(w, "parent", p->parent);
		if (p->parent_uuid[0])
			json_put_str(w, "parent_uuid", p->parent_uuid);
		json_put_u64(w, "used_bytes", p->used_bytes);
		json_put_u64(w, "limit_bytes", p->limit_bytes);
	}
	if (p->kind == PART_FILE || p->kind == PART_SUBVOLUME)
		put_chunks(w, p);
	json_close_object(w);
}

int manifest_to_text(const struct manifest *m, struct buf *out, struct err *err)
{
	struct json_writer w;
	int r;

	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	json_put_u64(&w, "format", BACKUP_FORMAT);
	json_put_str(&w, "id", m->id);
	json_put_str(&w, "version", m->version);
	json_put_str(&w, "arch", m->arch);
	json_put_str(&w, "kernel", m->kernel);
	json_put_u64(&w, "at_us", m->at_us);
	json_put_u64(&w, "sandboxes_left_out", m->left_out);
	json_open_array(&w, "parts");
	for (size_t i = 0; i < m->n_parts; i++)
		put_part(&w, &m->parts[i]);
	json_close_array(&w);
	json_close_object(&w);
	r = json_writer_end(&w);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "the backup's manifest is too large") : 0;
}

/* Relative, without empty names, "." and "..". */
static bool is_safe(const char *path)
{
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len == 0 || (len == 1 && path[0] == '.') ||
		    (len == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += len;
		if (*path == '/' && *++path == '\0')
			return false;
	}
	return true;
}

static bool is_id(const char *text, size_t len, const char *kind)
{
	char id[ID_SIZE];

	if (len >= sizeof(id))
		return false;
	memcpy(id, text, len);
	id[len] = '\0';
	return id_is_valid(id, kind);
}

/* layers/sb_…, layers/vo_… or layers/sn_…/files */
static bool is_subvolume(const char *path)
{
	const char *name = path + 7;
	size_t len;

	if (strncmp(path, "layers/", 7) != 0)
		return false;
	len = strcspn(name, "/");
	if (name[len] == '\0')
		return is_id(name, len, "sb") || is_id(name, len, "vo");
	return is_id(name, len, "sn") && strcmp(name + len, "/files") == 0;
}

static bool is_uuid(const char *text)
{
	return strlen(text) == UUID_SIZE - 1 && strspn(text, "0123456789abcdef-") == UUID_SIZE - 1;
}

static int read_chunks(const json_t *array, struct part *p, struct err *err)
{
	const json_t *one;
	size_t i;

	json_array_foreach(array, i, one)
	{
		struct digest digest;

		if (!json_is_string(one) || digest_parse(json_string_value(one), &digest) < 0)
			return err_field(err, "chunks", "not a digest");
		part_add_chunk(p, &digest);
	}
	return 0;
}

static int read_subvolume(struct manifest *m, struct part *p, const char *stream,
                          const char *source, const char *parent, const char *parent_uuid,
                          struct err *err)
{
	if (!is_subvolume(p->path))
		return err_field(err, "path", "'%.80s' is no place of a subvolume", p->path);
	if (!is_uuid(stream) || !is_uuid(source))
		return err_field(err, "stream_uuid", "not a UUID");
	if (parent_uuid[0] && !is_uuid(parent_uuid))
		return err_field(err, "parent_uuid", "not a UUID");
	(void)snprintf(p->parent_uuid, UUID_SIZE, "%s", parent_uuid);
	memcpy(p->stream_uuid, stream, UUID_SIZE);
	memcpy(p->source_uuid, source, UUID_SIZE);
	if (!parent)
		return 0;
	for (size_t i = 0; i + 1 < m->n_parts; i++)
		if (m->parts[i].kind == PART_SUBVOLUME && strcmp(m->parts[i].path, parent) == 0) {
			p->parent = xstrdup(parent);
			return 0;
		}
	return err_field(err, "parent", "'%.80s' does not come before '%.80s'", parent, p->path);
}

static int read_part(struct manifest *m, const json_t *object, struct err *err)
{
	const char *kind = "", *path = "", *owner = "root", *target = NULL, *parent = NULL;
	const char *stream = "", *source = "", *parent_uuid = "";
	uint64_t mode = 0, bytes = 0, transid = 0, used = 0, limit = 0;
	json_t *chunks = NULL;
	const struct json_field fields[] = {
		{"kind", JSON_FIELD_STRING, &kind, true},
		{"path", JSON_FIELD_STRING, &path, true, .min = 1, .max = 4096},
		{"mode", JSON_FIELD_U64, &mode, .max = 07777},
		{"owner", JSON_FIELD_STRING, &owner},
		{"target", JSON_FIELD_STRING, &target, .min = 1, .max = 4095},
		{"stream_uuid", JSON_FIELD_STRING, &stream},
		{"source_uuid", JSON_FIELD_STRING, &source},
		{"source_transid", JSON_FIELD_U64, &transid},
		{"parent", JSON_FIELD_STRING, &parent},
		{"parent_uuid", JSON_FIELD_STRING, &parent_uuid},
		{"used_bytes", JSON_FIELD_U64, &used},
		{"limit_bytes", JSON_FIELD_U64, &limit},
		{"bytes", JSON_FIELD_U64, &bytes},
		{"chunks", JSON_FIELD_ARRAY, &chunks, .max = CHUNKS_MAX},
	};
	int r = json_read(object, "parts.", fields, ARRAY_SIZE(fields), err);
	struct part *p;
	size_t i = 0;

	if (r < 0)
		return r;
	while (i < ARRAY_SIZE(kinds) && strcmp(kinds[i], kind) != 0)
		i++;
	if (i == ARRAY_SIZE(kinds))
		return err_field(err, "kind", "'%.40s' is not known", kind);
	if (!is_safe(path))
		return err_field(err, "path", "'%.80s' leads out of the data directory", path);
	if (i == PART_LINK && !target)
		return err_field(err, "target", "is missing");
	p = manifest_add(m, (enum part_kind)i, path);
	p->mode = (uint32_t)mode;
	p->is_gateways = strcmp(owner, "gateway") == 0;
	p->target = i == PART_LINK ? xstrdup(target) : NULL;
	p->bytes = bytes;
	p->source_transid = transid;
	p->used_bytes = used;
	p->limit_bytes = limit;
	r = chunks ? read_chunks(chunks, p, err) : 0;
	return r == 0 && i == PART_SUBVOLUME
	               ? read_subvolume(m, p, stream, source, parent, parent_uuid, err)
	               : r;
}

/* Checked first: we cannot know what a newer format means. */
static int check_format(const json_t *object, struct err *err)
{
	const json_t *format = json_object_get(object, "format");

	if (json_integer_value(format) > BACKUP_FORMAT) {
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "the backup has format %lld, and this cloche knows %d",
		              (long long)json_integer_value(format), BACKUP_FORMAT);
		return err_hint(err, "use a cloche at least as new as the one that wrote it");
	}
	return json_integer_value(format) == BACKUP_FORMAT
	               ? 0
	               : err_field(err, "format", "is missing or wrong");
}

static int read_all(const json_t *object, struct manifest *m, struct err *err)
{
	const char *id = "", *version = "", *arch = "", *kernel = "";
	uint64_t format;
	json_t *parts = NULL;
	const struct json_field fields[] = {
		{"format", JSON_FIELD_U64, &format, true},
		{"id", JSON_FIELD_STRING, &id, true, .max = ID_SIZE - 1},
		{"version", JSON_FIELD_STRING, &version, true, .max = 64},
		{"arch", JSON_FIELD_STRING, &arch, true, .max = 64},
		{"kernel", JSON_FIELD_STRING, &kernel, true, .max = 128},
		{"at_us", JSON_FIELD_U64, &m->at_us, true},
		{"sandboxes_left_out", JSON_FIELD_U64, &m->left_out},
		{"parts", JSON_FIELD_ARRAY, &parts, true, .max = PARTS_MAX},
	};
	int r = check_format(object, err);
	const json_t *one;
	size_t i;

	if (r == 0)
		r = json_read(object, "", fields, ARRAY_SIZE(fields), err);
	if (r < 0)
		return r;
	memcpy(m->id, id, strlen(id) + 1);
	m->version = xstrdup(version);
	m->arch = xstrdup(arch);
	m->kernel = xstrdup(kernel);
	json_array_foreach(parts, i, one)
	{
		r = read_part(m, one, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int manifest_parse(const char *text, size_t len, struct manifest *ret, struct err *err)
{
	auto_json json_t *object = NULL;
	int r = json_parse(text, len, &object, err);

	*ret = (struct manifest){0};
	if (r == 0 && !json_is_object(object))
		r = err_set(err, ERR_BAD_REQUEST, 0, "it is no object");
	if (r == 0)
		r = read_all(object, ret, err);
	if (r < 0) {
		manifest_done(ret);
		return err_prefix(err, "the backup's manifest");
	}
	return 0;
}
