# SPDX-License-Identifier: Apache-2.0
# The R driver of PROTOCOL.md, for R 4.0 and later: Rscript driver.R
#
#	wire.R      messages on fd 3, JSON         pictures.R  the device that plots are drawn on
#	show.R      values as MIME bundles         cell.R      one call: its expressions, values and errors
#
# A call's expressions are evaluated in the global environment, one after the other. What is visible is printed, as R
# itself would; the last value is the result. The driver's functions live in an environment of their own whose parent is
# base, so what the code defines does not reach them.
#
# Interrupts are suspended except where the code runs. While the driver waits for a message SIGINT is dropped by
# src/driver/socket.c. R looks at a signal between two steps of its interpreter: what runs in C without asking cannot be
# interrupted.

local({
	own <- new.env(parent = baseenv())
	dir <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1]))
	for (name in c("wire.R", "show.R", "pictures.R", "cell.R"))
		sys.source(file.path(dir, name), own)
	own$wire_open(dir)
	own$main()
})
