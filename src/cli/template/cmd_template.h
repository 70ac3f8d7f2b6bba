// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the options of all subcommands of `cloche template` are read into. */
#include "cli/template/template_build.h"
#include "cli/template/template_list.h"
#include "cli/template/template_move.h"

struct template_opts {
	struct template_build_opts build;
	struct template_from_opts from;
	struct template_import_opts import;
	struct template_export_opts export;
	struct template_pull_opts pull;
};
