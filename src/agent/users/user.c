// SPDX-License-Identifier: Apache-2.0
#include "agent/users/user.h"

#include "base/parse.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define TABLE_MAX    (1024 * 1024)
#define DEFAULT_NAME "user"
#define DEFAULT_UID  1000
#define DEFAULT_HOME "/home/user"
#define FIELDS_MAX   7 /* of a passwd line */
#define PASSWD_COLS  7
#define GROUP_COLS   4

static void read_table(const char *path, struct buf *text)
{
	auto_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	char *room;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > TABLE_MAX)
		return;
	while (buf_reserve(text, MIN((size_t)16384, buf_room(text)), &room) == 0) {
		n = read(fd, room, MIN((size_t)16384, buf_room(text)));
		if (n <= 0)
			break;
		buf_commit(text, (size_t)n);
	}
}

struct fields {
	const char *at[FIELDS_MAX];
	size_t len[FIELDS_MAX];
};

/* The next line of exactly `cols` fields; *text moves behind it. */
static bool next_line(const char **text, const char *end, size_t cols, struct fields *ret)
{
	while (*text < end) {
		const char *line = *text, *stop = memchr(line, '\n', (size_t)(end - line));
		size_t n = 0;

		stop = stop ? stop : end;
		*text = stop + (stop < end);
		for (const char *at = line; n < cols; n++) {
			const char *colon = memchr(at, ':', (size_t)(stop - at));

			ret->at[n] = at;
			ret->len[n] = (size_t)((colon ? colon : stop) - at);
			if (!colon) {
				n++;
				break;
			}
			at = colon + 1;
		}
		if (n == cols && ret->at[cols - 1] + ret->len[cols - 1] == stop &&
		    ret->len[0] > 0 && !memchr(line, '\0', (size_t)(stop - line)))
			return true;
	}
	return false;
}

static bool field_is(const struct fields *f, size_t i, const char *text)
{
	return f->len[i] == strlen(text) && memcmp(f->at[i], text, f->len[i]) == 0;
}

static bool field_id(const struct fields *f, size_t i, uint32_t *ret)
{
	char text[16];
	uint64_t v;

	if (f->len[i] >= sizeof(text))
		return false;
	memcpy(text, f->at[i], f->len[i]);
	text[f->len[i]] = '\0';
	if (parse_u64(text, UINT32_MAX - 1, &v) < 0) /* the last one means "keep" to chown() */
		return false;
	*ret = (uint32_t)v;
	return true;
}

static void field_copy(const struct fields *f, size_t i, char *ret, size_t size)
{
	if (f->len[i] < size)
		(void)snprintf(ret, size, "%.*s", (int)f->len[i], f->at[i]);
}

/* By name, or where that is NULL by number. */
static bool find_user(const struct buf *passwd, const char *name, uid_t uid, struct identity *ret)
{
	const char *at = buf_str(passwd), *end = at + passwd->len;
	struct fields f;
	uint32_t id, gid;

	while (next_line(&at, end, PASSWD_COLS, &f)) {
		if (!field_id(&f, 2, &id) || !field_id(&f, 3, &gid))
			continue;
		if (name ? !field_is(&f, 0, name) : id != uid)
			continue;
		ret->uid = id;
		ret->gid = gid;
		field_copy(&f, 0, ret->name, sizeof(ret->name));
		field_copy(&f, 5, ret->home, sizeof(ret->home));
		field_copy(&f, 6, ret->shell, sizeof(ret->shell));
		return true;
	}
	return false;
}

static bool lists_member(const struct fields *f, const char *name)
{
	const char *at = f->at[3], *end = at + f->len[3];
	size_t len = strlen(name);

	while (at < end) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		const char *stop = comma ? comma : end;

		if ((size_t)(stop - at) == len && memcmp(at, name, len) == 0)
			return true;
		at = stop + 1;
	}
	return false;
}

static void find_groups(struct identity *id)
{
	auto_call(buf_done) struct buf text = BUF_INIT(TABLE_MAX);
	const char *at, *end;
	struct fields f;
	uint32_t gid;

	read_table("/etc/group", &text);
	at = buf_str(&text);
	end = at + text.len;
	while (id->name[0] && id->n_groups < IDENTITY_GROUPS_MAX &&
	       next_line(&at, end, GROUP_COLS, &f))
		if (field_id(&f, 2, &gid) && gid != id->gid && lists_member(&f, id->name))
			id->groups[id->n_groups++] = gid;
}

static void fill_gaps(struct identity *id)
{
	if (id->home[0] != '/')
		(void)snprintf(id->home, sizeof(id->home), "/");
	if (id->shell[0] != '/')
		(void)snprintf(id->shell, sizeof(id->shell), "/bin/sh");
}

/* Where the sandbox's files do not know the default user, its number still stands. An agent that is
 * not root can be nobody but itself. */
static void set_default(const struct buf *passwd, struct identity *id)
{
	uid_t uid = geteuid() == 0 ? DEFAULT_UID : geteuid();

	if (geteuid() == 0 && find_user(passwd, DEFAULT_NAME, 0, id))
		return;
	if (find_user(passwd, NULL, uid, id))
		return;
	id->uid = id->gid = uid;
	(void)snprintf(id->home, sizeof(id->home), DEFAULT_HOME);
}

/* The sentence says it all: no ": No such file or directory" behind it. */
static int not_found(struct err *err, const char *what, const char *name)
{
	(void)err_set(err, ERR_NOT_FOUND, 0, "%s '%s' in the sandbox", what, name);
	err->errnum = ENOENT;
	return -ENOENT;
}

/* what: of the error, if there is none. */
static int find_group(const char *what, const char *name, gid_t *ret, struct err *err)
{
	auto_call(buf_done) struct buf text = BUF_INIT(TABLE_MAX);
	const char *at, *end;
	struct fields f;
	uint64_t number;

	read_table("/etc/group", &text);
	at = buf_str(&text);
	end = at + text.len;
	while (next_line(&at, end, GROUP_COLS, &f))
		if (field_is(&f, 0, name) && field_id(&f, 2, ret))
			return 0;
	if (parse_u64(name, UINT32_MAX - 1, &number) < 0)
		return not_found(err, what, name);
	*ret = (gid_t)number;
	return 0;
}

/* Without a line in passwd it is in root's group, as in other runtimes: images that run under any
 * number open their files to that group. */
static void set_number(const struct buf *passwd, uid_t uid, struct identity *id)
{
	if (find_user(passwd, NULL, uid, id))
		return;
	id->uid = uid;
	id->gid = geteuid() == 0 ? 0 : getegid();
}

/* Everything but the groups. */
static int find_identity(const char *user, struct identity *id, struct err *err)
{
	auto_call(buf_done) struct buf passwd = BUF_INIT(TABLE_MAX);
	uint64_t number;

	read_table("/etc/passwd", &passwd);
	if (user[0] == '\0') {
		set_default(&passwd, id);
	} else if (find_user(&passwd, user, 0, id)) {
		;
	} else if (parse_u64(user, UINT32_MAX - 1, &number) == 0) {
		set_number(&passwd, (uid_t)number, id);
	} else if (strcmp(user, "root") == 0) {
		(void)snprintf(id->name, sizeof(id->name), "root");
		(void)snprintf(id->home, sizeof(id->home), "/root");
	} else {
		return not_found(err, "user: no user", user);
	}
	fill_gaps(id);
	return 0;
}

int identity_find(const char *user, struct identity *ret, struct err *err)
{
	const size_t len = strcspn(user, ":");
	const char *group = user[len] ? user + len + 1 : "";
	auto_free char *name = xstrndup(user, len);
	struct identity id = {0};
	int r = find_identity(name, &id, err);

	if (r == 0 && *group)
		r = find_group("user: no group", group, &id.gid, err);
	else if (r == 0)
		find_groups(&id);
	if (r == 0)
		*ret = id;
	return r;
}

int identity_parse_owner(const char *owner, uid_t *ret_uid, gid_t *ret_gid, struct err *err)
{
	const char *colon = strchr(owner, ':');
	auto_free char *user = xstrndup(owner, colon ? (size_t)(colon - owner) : strlen(owner));
	struct identity id = {.uid = (uid_t)-1};
	gid_t gid = (gid_t)-1;
	int r;

	if (owner[0] == '\0')
		return err_set(err, ERR_INVALID_FIELD, EINVAL, "owner: is empty");
	if (user[0]) {
		r = identity_find(user, &id, err);
		if (r < 0)
			return r;
	}
	if (colon && colon[1]) {
		r = find_group("owner: no group", colon + 1, &gid, err);
		if (r < 0)
			return r;
	}
	*ret_uid = id.uid;
	*ret_gid = gid;
	return 0;
}

static const char *end_of(const struct fields *f, size_t cols)
{
	return f->at[cols - 1] + f->len[cols - 1];
}

/* The line of a name, or where that is NULL of a number. */
static bool find_line(const struct buf *text, size_t cols, const char *name, uint32_t number,
                      struct fields *ret)
{
	const char *at = buf_str(text), *end = at + text->len;
	uint32_t id;

	while (next_line(&at, end, cols, ret))
		if (name ? field_is(ret, 0, name) : field_id(ret, 2, &id) && id == number)
			return true;
	return false;
}

/* All that is between the lines stays as it is: it may be what this file does not know. */
static int add_group(const struct buf *group, uint32_t gid, const char *name, struct buf *out)
{
	const char *from = buf_str(group), *at = from, *end = at + group->len;
	bool is_there;
	struct fields f;
	uint32_t id;
	int r = 0;

	is_there = find_line(group, GROUP_COLS, name, 0, &f);
	while (r == 0 && next_line(&at, end, GROUP_COLS, &f)) {
		if (!is_there && field_id(&f, 2, &id) && id == gid) {
			is_there = true;
			r = buf_append(out, from, (size_t)(f.at[0] - from));
			r = r < 0 ? r : buf_printf(out, "%s:*:%u:\n", name, (unsigned)gid);
			from = f.at[0];
		}
		if (r == 0 && lists_member(&f, DEFAULT_NAME) && !lists_member(&f, name)) {
			const char *stop = end_of(&f, GROUP_COLS);

			r = buf_append(out, from, (size_t)(stop - from));
			r = r < 0 ? r : buf_printf(out, ",%s", name);
			from = stop;
		}
	}
	return r < 0 ? r : buf_append(out, from, (size_t)(end - from));
}

static void swap(struct buf *a, struct buf *b)
{
	struct buf was = *a;

	*a = *b;
	*b = was;
}

int names_add(struct buf *passwd, struct buf *group, const char *name, const char *home)
{
	auto_call(buf_done) struct buf users = BUF_INIT(TABLE_MAX), groups = BUF_INIT(TABLE_MAX);
	const char *from = buf_str(passwd), *end = from + passwd->len;
	struct fields f, old;
	uint32_t uid, gid, other;
	int r;

	if (!find_line(passwd, PASSWD_COLS, DEFAULT_NAME, 0, &old) || !field_id(&old, 2, &uid) ||
	    !field_id(&old, 3, &gid))
		return -ENOENT;
	if (find_line(passwd, PASSWD_COLS, name, 0, &f))
		return field_id(&f, 2, &other) && other == uid ? 0 : -EEXIST;
	if (!find_line(passwd, PASSWD_COLS, NULL, uid, &f))
		return -ENOENT;
	r = buf_append(&users, from, (size_t)(f.at[0] - from));
	if (r == 0)
		r = buf_printf(&users, "%s:*:%u:%u:%s:%s:%.*s\n", name, (unsigned)uid,
		               (unsigned)gid, name, home, (int)old.len[6], old.at[6]);
	if (r == 0)
		r = buf_append(&users, f.at[0], (size_t)(end - f.at[0]));
	if (r == 0)
		r = add_group(group, gid, name, &groups);
	if (r < 0)
		return -E2BIG;
	swap(passwd, &users);
	swap(group, &groups);
	return 0;
}

struct names {
	struct buf passwd, group;
};

struct names *names_new(void)
{
	struct names *n = xnew0(struct names);

	buf_init(&n->passwd, TABLE_MAX);
	buf_init(&n->group, TABLE_MAX);
	read_table("/etc/passwd", &n->passwd);
	read_table("/etc/group", &n->group);
	return n;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	buf_done(&n->passwd);
	buf_done(&n->group);
	free(n);
}

static void find_name(const struct buf *text, size_t cols, uint32_t wanted, char *ret, size_t size)
{
	const char *at = buf_str(text), *end = at + text->len;
	struct fields f;
	uint32_t id;

	ret[0] = '\0';
	while (next_line(&at, end, cols, &f)) {
		if (!field_id(&f, 2, &id) || id != wanted)
			continue;
		field_copy(&f, 0, ret, size);
		return;
	}
}

void names_user(const struct names *n, uid_t uid, char *ret, size_t size)
{
	find_name(&n->passwd, PASSWD_COLS, uid, ret, size);
}

void names_group(const struct names *n, gid_t gid, char *ret, size_t size)
{
	find_name(&n->group, GROUP_COLS, gid, ret, size);
}
