// SPDX-License-Identifier: Apache-2.0
#include "member/papers/node_file.h"

#include "base/fd.h"
#include "base/id.h"
#include "base/json/json.h"
#include "member/papers/trouble.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define USER        "cloche-cluster"
#define FALLBACK_ID 64001 /* beside the gateway's: Debian leaves 60000 to 64999 to packages */
#define FILE_MAX    ((size_t)65536)

static const char *const kept[] = {"node.json",
                                   "node.key",
                                   "node.crt",
                                   "authority.crt",
                                   "authority.key",
                                   "objects.keys",
                                   "root/certificate/renewed.json",
                                   "root/certificate/wanted.json"};
static const char *const of_member[] = {"root", "root/tls", "root/invitations", "root/renewals",
                                        "root/certificate"};

char *node_file_path(const char *data_dir, const char *name)
{
	return xasprintf("%s/cluster/%s", data_dir, name);
}

void node_file_user(uid_t *ret_uid, gid_t *ret_gid)
{
	const struct passwd *pw = getpwnam(USER);

	*ret_uid = pw && pw->pw_uid ? pw->pw_uid : FALLBACK_ID;
	*ret_gid = pw && pw->pw_uid ? pw->pw_gid : FALLBACK_ID;
}

static int make_dir(const char *path, uid_t uid, gid_t gid, struct err *err)
{
	if ((mkdir(path, 0700) < 0 && errno != EEXIST) || chown(path, uid, gid) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
	return 0;
}

int node_file_prepare(const char *data_dir, struct err *err)
{
	auto_free char *dir = xasprintf("%s/cluster", data_dir);
	uid_t uid;
	gid_t gid;
	int r;

	node_file_user(&uid, &gid);
	if (mkdir(data_dir, 0711) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", data_dir);
	r = make_dir(dir, 0, 0, err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(of_member); i++) {
		auto_free char *path = node_file_path(data_dir, of_member[i]);

		r = make_dir(path, uid, gid, err);
	}
	return r;
}

int node_file_save(const char *data_dir, const char *name, const char *text, struct err *err)
{
	auto_free char *path = node_file_path(data_dir, name);
	int r = fd_replace_file(AT_FDCWD, path, text, strlen(text), 0600, /* sync= */ true);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write '%s'", path) : 0;
}

char *node_file_load(const char *data_dir, const char *name)
{
	auto_free char *path = node_file_path(data_dir, name);
	struct buf text = BUF_INIT(FILE_MAX);

	if (buf_append_file(&text, path) < 0) {
		buf_done(&text);
		return NULL;
	}
	return text.mem ? (text.data == text.mem ? text.mem : xstrdup(buf_str(&text))) : NULL;
}

static int read_tags(struct node_file *f, const json_t *tags, struct err *err)
{
	if (json_array_size(tags) != TAGS_PER_NODE)
		return err_field(err, "tags", "there must be %d", TAGS_PER_NODE);
	for (size_t i = 0; i < TAGS_PER_NODE; i++) {
		json_int_t tag = json_integer_value(json_array_get(tags, i));

		if (tag < 0 || tag >= TAG_COUNT)
			return err_field(err, "tags", "one is not a tag");
		f->tags[i] = (uint32_t)tag;
	}
	return 0;
}

static int parse(struct node_file *f, const char *text, struct err *err)
{
	const char *cluster = NULL, *name = NULL, *address = NULL, *secret = NULL, *user = NULL;
	const char *password = NULL, *invitation = NULL;
	auto_json json_t *all = NULL;
	json_t *tags = NULL;
	uint64_t node = 0;
	const struct json_field fields[] = {
		{"cluster_id", JSON_FIELD_STRING, &cluster, true},
		{"name", JSON_FIELD_STRING, &name, true},
		{"address", JSON_FIELD_STRING, &address, true},
		{"secret", JSON_FIELD_STRING, &secret, true},
		{"user", JSON_FIELD_STRING, &user, true},
		{"password", JSON_FIELD_STRING, &password, true},
		{"invitation", JSON_FIELD_STRING, &invitation, false},
		{"node", JSON_FIELD_U64, &node, true, .max = INT32_MAX},
		{"tags", JSON_FIELD_ARRAY, &tags, true},
	};
	int r = json_parse(text, strlen(text), &all, err);

	if (r == 0)
		r = json_read(all, "", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = read_tags(f, tags, err);
	if (r < 0)
		return r;
	f->cluster_id = xstrdup(cluster);
	f->name = xstrdup(name);
	f->address = xstrdup(address);
	f->secret = xstrdup(secret);
	f->user = xstrdup(user);
	f->password = xstrdup(password);
	f->invitation = invitation ? xstrdup(invitation) : NULL;
	f->node = (uint32_t)node;
	return 0;
}

int node_file_read(struct node_file *f, const char *data_dir, struct err *err)
{
	auto_free char *path = node_file_path(data_dir, "node.json");
	auto_free char *text = NULL;

	if (access(path, F_OK) < 0 && errno == ENOENT) {
		(void)trouble_set(err, TROUBLE_NOT_JOINED, "this node is in no cluster");
		return -ENOENT;
	}
	text = node_file_load(data_dir, "node.json");
	if (!text)
		return err_set(err, ERR_INTERNAL, 0, "cannot read '%s'", path);
	if (parse(f, text, err) < 0) {
		(void)err_prefix(err, "'%s' is damaged", path);
		return err_hint(err, "restore it from a backup of the data directory, or let the "
		                     "node join anew: cloche node join TOKEN --replace");
	}
	return 0;
}

int node_file_write(const struct node_file *f, const char *data_dir, struct err *err)
{
	auto_json json_t *tags = json_array();
	auto_json json_t *all =
		json_pack("{ss ss ss ss ss ss sI sO}", "cluster_id", f->cluster_id, "name", f->name,
	                  "address", f->address, "secret", f->secret, "user", f->user, "password",
	                  f->password, "node", (json_int_t)f->node, "tags", tags);
	auto_free char *text = NULL;

	for (size_t i = 0; i < TAGS_PER_NODE; i++)
		(void)json_array_append_new(tags, json_integer(f->tags[i]));
	if (f->invitation)
		(void)json_object_set_new(all, "invitation", json_string(f->invitation));
	text = json_dumps(all, JSON_INDENT(2));
	if (!text)
		return err_set(err, ERR_INTERNAL, ENOMEM, "cannot write who this node is");
	return node_file_save(data_dir, "node.json", text, err);
}

void node_file_done(struct node_file *f)
{
	free(f->cluster_id);
	free(f->name);
	free(f->address);
	free(f->secret);
	free(f->user);
	free(f->password);
	free(f->invitation);
	*f = (struct node_file){0};
}

void node_file_draw_tags(struct node_file *f)
{
	for (size_t i = 0; i < TAGS_PER_NODE; i++) {
		bool is_new;

		do {
			random_bytes(&f->tags[i], sizeof(f->tags[i]));
			f->tags[i] %= TAG_COUNT;
			is_new = true;
			for (size_t k = 0; k < i; k++)
				is_new = is_new && f->tags[k] != f->tags[i];
		} while (!is_new);
	}
}

int node_file_set_aside(const char *data_dir, struct err *err)
{
	auto_free char *old = node_file_path(data_dir, "old");

	if (mkdir(old, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", old);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		auto_free char *from = node_file_path(data_dir, kept[i]);
		const char *slash = strrchr(kept[i], '/');
		auto_free char *to = xasprintf("%s/%s", old, slash ? slash + 1 : kept[i]);

		if (rename(from, to) < 0 && errno != ENOENT)
			return err_set(err, ERR_INTERNAL, errno, "cannot move '%s'", from);
	}
	return 0;
}
