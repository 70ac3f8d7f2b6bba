// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A guest's connection to the signer (net/policy/ssh_signer.h): messages in, answers out, one at a
 * time. */
#include "wall/door.h"

struct signer;

bool signer_is_dialled(const struct address *dialled, uint16_t port);
/* Owns fd, also if it fails. done is called once, from the loop, when the guest is gone. */
must_check int signer_new(struct door *door, int fd, loop_fn done, void *arg, struct signer **ret);
void signer_free(struct signer *s); /* done is not called; NULL is fine */
