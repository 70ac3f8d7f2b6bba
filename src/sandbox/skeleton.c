// SPDX-License-Identifier: Apache-2.0
/* Placeholder so that others can link while this directory is being written. */
#include "sandbox/exec.h"
#include "sandbox/files.h"
#include "sandbox/fleet.h"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NO return err_set(err, ERR_UNAVAILABLE, 0, "not built yet")
int exec_start(struct sandbox *s, const struct exec_spec *spec, struct exec **ret, struct err *err)
{
	NO;
}
struct exec *exec_find(struct sandbox *s, const char *id)
{
	return NULL;
}
void exec_each(struct sandbox *s, void (*fn)(struct exec *e, void *arg), void *arg)
{
}
void exec_to_json(const struct exec *e, struct json_writer *w, const char *name)
{
}
const char *exec_id(const struct exec *e)
{
	return "";
}
enum exec_state exec_state(const struct exec *e)
{
	return EXEC_FAILED;
}
const char *exec_state_name(enum exec_state state)
{
	return "";
}
bool exec_is_over(const struct exec *e)
{
	return true;
}
struct spool *exec_spool(struct exec *e)
{
	return NULL;
}
const struct err *exec_failure(const struct exec *e)
{
	return NULL;
}
ssize_t exec_write_stdin(struct exec *e, const void *data, size_t len, struct err *err)
{
	NO;
}
int exec_close_stdin(struct exec *e, struct err *err)
{
	NO;
}
int exec_signal(struct exec *e, int signo, bool whole_tree, struct err *err)
{
	NO;
}
int exec_resize(struct exec *e, uint16_t rows, uint16_t cols, struct err *err)
{
	NO;
}
void exec_remove(struct exec *e)
{
}
void exec_watch_add(struct exec *e, struct exec_watch *w)
{
}
void exec_watch_remove(struct exec_watch *w)
{
}
int file_call_start(struct sandbox *s, const struct start *op, const struct file_call_ops *ops,
                    void *arg, struct file_call **ret, struct err *err)
{
	NO;
}
ssize_t file_call_write(struct file_call *c, const void *data, size_t len)
{
	return -EINVAL;
}
void file_call_finish(struct file_call *c)
{
}
void file_call_pause(struct file_call *c, bool on)
{
}
void file_call_cancel(struct file_call *c)
{
}
int fleet_new(const struct fleet_config *config, loop_fn ready, void *arg, struct fleet **ret,
              struct err *err)
{
	NO;
}
void fleet_free(struct fleet *fleet)
{
}
bool fleet_is_ready(const struct fleet *fleet)
{
	return false;
}
const struct fleet_config *fleet_config(const struct fleet *fleet)
{
	return NULL;
}
const struct msg_reply *fleet_host(const struct fleet *fleet)
{
	return NULL;
}
size_t fleet_count(const struct fleet *fleet)
{
	return 0;
}
void fleet_delete_all(struct fleet *fleet, loop_fn done, void *arg)
{
}
struct sandbox *sandbox_find(struct fleet *fleet, const char *project_id, const char *id_or_name)
{
	return NULL;
}
size_t fleet_list(struct fleet *fleet, const struct sandbox_filter *filter,
                  void (*fn)(struct sandbox *s, void *arg), void *arg, bool *ret_more)
{
	return 0;
}
int sandbox_create(struct fleet *fleet, const char *project_id, const struct sandbox_spec *spec,
                   sandbox_done_fn done, void *arg, struct err *err)
{
	NO;
}
void sandbox_delete(struct sandbox *s, enum end_cause cause, sandbox_done_fn done, void *arg)
{
}
int sandbox_update(struct sandbox *s, const struct sandbox_patch *patch, sandbox_done_fn done,
                   void *arg, struct err *err)
{
	NO;
}
const char *sandbox_id(const struct sandbox *s)
{
	return "";
}
enum sandbox_state sandbox_state(const struct sandbox *s)
{
	return SANDBOX_FAILED;
}
const char *sandbox_state_name(enum sandbox_state state)
{
	return "";
}
const char *end_cause_name(enum end_cause cause)
{
	return "";
}
const char *sandbox_project_id(const struct sandbox *s)
{
	return "";
}
struct fleet *sandbox_fleet(const struct sandbox *s)
{
	return NULL;
}
void sandbox_to_json(const struct sandbox *s, struct json_writer *w, const char *name)
{
}
