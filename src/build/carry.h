// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Takes what a step has packed for a COPY from another stage out of its sandbox, as a parcel. */
#include "build/build.h"

struct carry;
typedef void (*carry_done_fn)(struct build *b, const struct err *err); /* err NULL: it is here */

/* done may be called before this returns; b->carry is set meanwhile. */
void carry_begin(struct build *b, carry_done_fn done);
void carry_cancel(struct carry **c); /* of NULL too; done is not called */
