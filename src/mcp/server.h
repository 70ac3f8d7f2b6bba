// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/json/json.h"

/* Writes what every result of the newer era has into its open object; nothing for the older era. */
void server_put_common(struct json_writer *w, bool is_modern);
