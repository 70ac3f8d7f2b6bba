// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the files of the gateway process share. gateway.c starts and ends it, services.c opens what
 * it is made of, listeners.c lets clients in.
 */
#include "api/api.h"
#include "api/operate/host_reading.h"
#include "base/text/toml.h"
#include "daemon/child.h"
#include "daemon/gateway/cluster_link.h"
#include "daemon/gateway/hop/hop.h"
#include "daemon/gateway/node_link.h"
#include "daemon/gateway/people.h"
#include "daemon/probe/registries.h"
#include "daemon/probe/sources.h"
#include "daemon/senders.h"
#include "daemon/wall.h"
#include "http/target.h"
#include "http/tls.h"
#include "mcp/mcp.h"
#include "secret/secret.h"
#include "wall/client.h"

#define GATEWAY_HOSTS_MAX (TOML_ITEMS_MAX + SITE_LISTENERS_MAX + 3)

struct gateway {
	const struct site *site;
	const struct gateway_fds *fds;
	loop_fn on_ready;
	struct loop *loop;
	struct work *work; /* waits for the disk */
	struct store *store;
	struct event_log *events;
	struct keyring *keyring;
	struct logins *logins;
	struct meters *meters;
	struct history *history;
	struct quota *quota;
	struct shares *shares;
	char boot_id[40]; /* of the running kernel */
	int statm_fd, proc_fd_dir;
	struct host_reading host_reading;
	struct fleet *fleet;
	struct http_server *server;
	struct tls_context *tls;
	struct authority *authority; /* of our own; NULL: the operator has given a certificate, or
	                              * there are no names */
	struct senders senders;
	struct people people;
	struct sources sources;
	struct host_registries registries;
	struct builds *builds;
	struct wall_client *wall;
	struct cluster_link cluster;
	struct hops *hops;
	struct node *node; /* NULL: there is no member */
	struct telemetry *telemetry;
	struct problems *problems;
	struct network_site network;
	struct master_keys master_keys;
	uint32_t node_number;      /* in its cluster, as of the start; 0: it was in none */
	struct seal_key *seal_key; /* signs exports of the event log */
	char *key_file;            /* where they are, unless the settings say so */
	struct origin key_file_origin;
	json_t *settings; /* as they are told */
	struct secrets *secrets;
	struct identity *identity; /* NULL: none are given out */
	struct api api;
	struct mcp *mcp;
	struct http_route routes[API_ROUTES_MAX]; /* of all tables, one behind the other */
	size_t n_routes;
	const char *hosts[GATEWAY_HOSTS_MAX + 1]; /* NULL-terminated */
	size_t n_hosts;
	char host_names[SITE_LISTENERS_MAX][HTTP_HOST_SIZE];
	char preview_url[HTTP_HOST_SIZE + 32], preview_port[16];
	int control_fd;
	struct loop_io *control_io;
	struct loop_timer *memory;
	bool is_stopping;
	bool is_followed; /* by another, so it deletes nothing */
	bool has_failed;  /* and has said so */
};

/* Opens all but the listeners. on_ready is called when the fleet knows which sandboxes are alive.
 */
must_check int services_open(struct gateway *g, struct err *err);
/* What of them is open, in the reverse order. */
void services_close(struct gateway *g);
/* lost: what the launcher had to replace. */
void services_tell_replaced(struct gateway *g, const struct child_loss *lost);

must_check int listeners_open(struct gateway *g, struct err *err);
