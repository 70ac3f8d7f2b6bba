// SPDX-License-Identifier: Apache-2.0
/* Creates that are announced (sandbox/pool/pool_reservation.h). The body is that of the creates
 * that will come, with their number and for how long they are waited for. */
#include "sandbox/pool/pool_reservation.h"

#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/idempotency.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/nodes/node_rows.h"
#include "api/templates/image.h"
#include "api/templates/packages.h"

static int read_own(const json_t *body, struct reservation_ask *ask, struct err *err)
{
	/* clang-format off */
	const struct json_field fields[] = {
		{"count",       JSON_FIELD_U64, &ask->count, true, .min = 1, .max = RESERVATION_COUNT_MAX},
		{"duration_ms", JSON_FIELD_U64, &ask->ms, .min = 1000, .max = RESERVATION_MS_MAX},
	};
	/* clang-format on */
	auto_json json_t *own = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		json_t *value = json_object_get(body, fields[i].name);

		if (value)
			(void)json_object_set(own, fields[i].name, value);
	}
	return json_read(own, "", fields, ARRAY_SIZE(fields), err);
}

static int read_body(const json_t *body, struct reservation_ask *ask, struct sandbox_spec *spec,
                     struct err *err)
{
	auto_json json_t *rest = body ? json_copy((json_t *)unconst(body)) : NULL;
	struct port_numbers ports;
	bool is_get;
	int r;

	if (json_is_object(rest)) {
		(void)json_object_del(rest, "count");
		(void)json_object_del(rest, "duration_ms");
	}
	r = body_read_create(rest, spec, &is_get, &ports, err);
	if (r == 0)
		r = read_own(body, ask, err);
	if (r == 0 && spec->wait_ms > 0)
		r = err_field(err, "wait_ms", "is for creates: a reservation waits for nothing");
	return r;
}

static int reply(struct http_req *req, const struct reservation *reservation, int status,
                 struct err *err)
{
	struct reply reply;

	reservation_to_json(reservation, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, status, err);
}

int create_reservation(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct sandbox_spec spec;
	struct reservation_ask ask = {
		.project_id = caller_project(req), .spec = &spec, .ms = RESERVATION_MS};
	struct reservation *reservation;
	struct idempotency_key key;
	bool has_key;
	int r = read_body(http_json(req), &ask, &spec, err);

	if (r == 0)
		r = lead_elsewhere(req, err);
	if (r > 0)
		return r;
	if (r == 0)
		r = idempotency_read(req, &key, err);
	has_key = r == 1;
	if (has_key)
		r = idempotency_find(api->fleet, ask.project_id, &key, &ask.id, err);
	if (r < 0)
		return r;
	reservation = ask.id ? reservation_find(api->fleet, ask.project_id, ask.id) : NULL;
	if (reservation)
		return reply(req, reservation, 201, err);
	r = find_pulled(req, &spec, err);
	if (r == 0)
		r = find_packages(req, &spec, NULL, err);
	if (r != 0)
		return r;
	spec.key_id = key_id(http_user(req));
	r = reservation_new(api->fleet, &ask, &reservation, err);
	if (r == 0 && has_key && !ask.id) {
		r = idempotency_put(api->fleet, ask.project_id, &key, reservation_id(reservation),
		                    err);
		if (r < 0)
			reservation_remove(reservation);
	}
	return r < 0 ? r : reply(req, reservation, 201, err);
}

struct listing {
	struct json_writer *w;
	const char *node;
};

static void put_reservation(const struct reservation *reservation, void *arg)
{
	const struct listing *l = arg;

	json_open_object(l->w, NULL);
	reservation_put_fields(reservation, l->w);
	if (l->node[0])
		json_put_str(l->w, "node", l->node);
	json_close_object(l->w);
}

static void put_own(struct http_req *req, struct json_writer *w)
{
	const struct api *api = http_app_arg(req);
	struct listing l = {w, node_of_rows(req)};

	reservations_each(api->fleet, caller_project(req), put_reservation, &l);
}

int list_reservations(struct http_req *req, struct err *err)
{
	static const struct node_rows_kind kind = {
		.array = "reservations", .put_own = put_own, .tells_node = true};
	struct json_writer *w;
	struct reply reply;
	int r = node_rows_begin(req, &kind, err);

	if (r != 0)
		return r;
	w = reply_begin(&reply);
	json_open_array(w, "reservations");
	put_own(req, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

static int find_reservation(const struct http_req *req, struct reservation **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "reservation");

	*ret = reservation_find(api->fleet, caller_project(req), id);
	if (*ret)
		return 0;
	(void)err_set(err, ERR_NOT_FOUND, 0, "no reservation '%.64s'", id);
	return err_hint(err, "it may have expired or been used up; 'cloche pool ls' lists those "
	                     "that there are");
}

int get_reservation(struct http_req *req, struct err *err)
{
	struct reservation *reservation;
	int r = find_reservation(req, &reservation, err);

	return r < 0 ? r : reply(req, reservation, 200, err);
}

int delete_reservation(struct http_req *req, struct err *err)
{
	struct reservation *reservation;
	struct reply reply;
	int r = find_reservation(req, &reservation, err);

	if (r < 0)
		return r;
	json_put_str(reply_begin(&reply), "id", reservation_id(reservation));
	reservation_remove(reservation);
	return reply_send(&reply, req, 200, err);
}
