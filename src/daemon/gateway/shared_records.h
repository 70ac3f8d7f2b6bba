// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What all nodes of the cluster have of this gateway's secrets and webhooks, and the key for it. */
struct gateway;

void shared_records_open(struct gateway *g); /* all services are there */
