# SPDX-License-Identifier: Apache-2.0
# One call: its expressions are parsed, evaluated and shown; and the loop that fetches calls.

now <- new.env(parent = emptyenv())
now$id <- NULL # of the call that runs
now$count <- 0L
now$cpu <- 0

cpu_seconds <- function() sum(proc.time()[1:2])

answer <- function(id, status = "ok", more = "") {
	wire_send("done", id, sprintf("{\"status\":\"%s\",\"count\":%d%s}", status, now$count, more))
}

finish <- function(status, more = "") {
	id <- now$id
	now$id <- NULL
	answer(id, status, sprintf(",\"cpu_us\":%.0f%s", max(0, cpu_seconds() - now$cpu) * 1e6, more))
}

# ---- errors

OWN_EVAL <- quote(eval(expression, globalenv()))

# The call that a condition names, NULL where it is the driver's: the code stands at top level.
named_call <- function(condition) {
	call <- conditionCall(condition)
	if (identical(call, OWN_EVAL)) NULL else call
}

# The frames of the code: what stands above the driver's own eval(), without the machinery of conditions.
user_calls <- function(calls) {
	own <- which(vapply(calls, identical, NA, OWN_EVAL))
	if (!length(own))
		return(list()) # it was shown, not evaluated
	calls <- calls[-seq_len(own[length(own)])]
	utils::tail(Filter(function(call) !is_of_conditions(call), calls), 50L)
}

is_of_conditions <- function(call) {
	name <- call[[1L]]
	is.function(name) || as.character(name)[1L] %in% c(".handleSimpleError", "h", "signalCondition", "withRestarts", "withOneRestart", "doWithOneRestart")
}

call_text <- function(call) {
	text <- tryCatch(deparse(call, width.cutoff = 100L, nlines = 1L)[1L], error = function(e) "?")
	where <- utils::getSrcref(call)
	if (is.null(where))
		where <- attr(call, "srcref")
	if (is.null(where))
		return(paste0("  ", text))
	sprintf("  %s:%d: %s", basename(attr(where, "srcfile")$filename), where[1L], text)
}

fault <- function(name, message, lines) list(name = name, message = message, lines = lines)

INTERRUPTED <- fault("Interrupt", "the call was interrupted", "Interrupt: the call was interrupted")

describe <- function(e, calls) {
	message <- tryCatch(paste(conditionMessage(e), collapse = "\n"), error = function(e) "an error that cannot be shown")
	kind <- setdiff(class(e), c("simpleError", "error", "condition"))
	call <- named_call(e)
	at <- if (is.null(call)) "Error: " else sprintf("Error in %s: ", sub("^ *", "", call_text(call)))
	lines <- c(strsplit(paste0(at, message), "\n", fixed = TRUE)[[1L]], vapply(user_calls(calls), call_text, ""))
	fault(if (length(kind)) kind[1L] else "Error", message, lines)
}

send_fault <- function(fault) {
	wire_send("error", now$id, sprintf("{\"name\":%s,\"message\":%s,\"traceback\":%s}",
		json_text(substr(fault$name, 1L, 100L)), json_text(fault$message), json_list(fault$lines)))
}

# ---- evaluation

parse_cell <- function(code, name) {
	lines <- strsplit(code, "\n", fixed = TRUE)[[1L]]
	parse(text = lines, keep.source = TRUE, srcfile = srcfilecopy(name, lines))
}

evaluate_visibly <- function(expression) withVisible(eval(expression, globalenv()))

# All expressions; the value of the last one is sent where it is visible. A value that draws itself, as ggplot's, has no text.
evaluate_all <- function(expressions) {
	for (i in seq_along(expressions)) {
		outcome <- evaluate_visibly(expressions[[i]])
		if (!outcome$visible)
			next
		found$.Last.value <- outcome$value
		if (i < length(expressions)) {
			print(outcome$value)
			next
		}
		text <- printed(outcome$value)
		if (nzchar(text))
			now$result <- bundle_of(outcome$value, text)
	}
}

# R would name the driver's eval() in a warning of code at top level.
warn_at_top <- function(w) {
	if (!identical(conditionCall(w), OWN_EVAL) || !getOption("warn") %in% 0:1)
		return()
	cat("Warning: ", conditionMessage(w), "\n", sep = "", file = stderr())
	invokeRestart("muffleWarning")
}

# NULL, or what went wrong.
attempt <- function(todo) {
	calls <- list()
	tryCatch({
		withCallingHandlers(allowInterrupts(todo()), error = function(e) calls <<- sys.calls(), warning = warn_at_top)
		NULL
	}, error = function(e) describe(e, calls), interrupt = function(i) INTERRUPTED)
}

parse_fault <- function(e) {
	lines <- strsplit(conditionMessage(e), "\n", fixed = TRUE)[[1L]]
	fault("ParseError", lines[1L], lines)
}

run <- function(message) {
	now$id <- message$id
	now$count <- now$count + 1L
	now$cpu <- cpu_seconds()
	now$result <- NULL
	put_back()
	code <- rawToChar(message$payload)
	Encoding(code) <- "UTF-8"
	expressions <- tryCatch(parse_cell(code, sprintf("cell-%d", now$count)), error = parse_fault)
	wrong <- if (is.expression(expressions)) attempt(function() evaluate_all(expressions)) else expressions
	if (is_child())
		end_child()
	drawn <- attempt(function() pictures_send(now$id))
	if (is.null(wrong))
		wrong <- drawn
	if (!is.null(now$result))
		wire_send("result", now$id, now$result)
	if (!is.null(wrong))
		send_fault(wrong)
	finish(if (is.null(wrong)) "ok" else "error")
}

# Before each call: what the last one may have left.
put_back <- function() {
	wire_put_back()
	while (sink.number() > 0L)
		sink()
	if (sink.number("message") != 2L)
		sink(type = "message")
	options(device = pictures_open)
}

# ---- what the code finds beside R's own

found <- new.env(parent = emptyenv())

display <- function(...) {
	for (value in list(...))
		if (is.null(now$id) || is_child())
			print(value)
		else
			wire_send("display", now$id, bundle_displayed(value))
	invisible()
}

# .Last runs first, and what it prints comes before `done`.
quit <- function(save = "no", status = 0, runLast = TRUE) {
	if (is_child())
		end_process("no", status, FALSE)
	if (runLast && exists(".Last", globalenv(), mode = "function", inherits = FALSE))
		get(".Last", globalenv())()
	if (!is.null(now$id))
		finish("exit", sprintf(",\"exit_code\":%d", as.integer(status) %% 256L))
	end_process("no", status, FALSE)
}

replace_in_base <- function(name, value) {
	unlockBinding(name, baseenv())
	assign(name, value, envir = baseenv())
	lockBinding(name, baseenv())
}

# ---- the loop

renew <- function(seed) {
	number <- readBin(seed, "integer", 8L)
	number <- Reduce(bitwXor, number[!is.na(number)], 1L)
	set.seed(if (is.na(number)) 1L else number)
}

# The variables of the next call, by their names.
read_env <- function(payload) {
	lines <- strsplit(rawToChar(payload), "\n", fixed = TRUE)[[1L]]
	at <- regexpr("=", lines, fixed = TRUE)
	structure(as.list(substring(lines, at + 1L)), names = substring(lines, 1L, at - 1L))
}

# Puts back what the code has not set to something else.
take_back_env <- function(lent, before) {
	for (name in names(lent)) {
		if (!identical(Sys.getenv(name), lent[[name]]))
			next
		if (is.na(before[[name]]))
			Sys.unsetenv(name)
		else
			do.call(Sys.setenv, before[name])
	}
}

run_with_env <- function(message, lent) {
	before <- as.list(Sys.getenv(names(lent), unset = NA, names = TRUE))
	do.call(Sys.setenv, lent)
	run(message)
	take_back_env(lent, before)
}

prepare <- function() {
	if (!isTRUE(l10n_info()$`UTF-8`))
		Sys.setlocale("LC_CTYPE", "C.UTF-8")
	options(warn = 1, keep.source = TRUE, device = pictures_open)
	replace_in_base("quit", quit)
	replace_in_base("q", quit)
	found$display <- display
	found$.Last.value <- NULL
	found <<- attach(found, name = "cloche", warn.conflicts = FALSE) # which makes a copy
}

# One that came when its call had ended already.
drop_interrupt <- function() tryCatch(allowInterrupts(Sys.sleep(0)), interrupt = function(i) NULL)

main <- function() suspendInterrupts({
	prepare()
	version <- paste(R.version$major, R.version$minor, sep = ".")
	wire_send("ready", "0", sprintf("{\"language\":\"r\",\"version\":%s,\"pid\":%d,\"env\":true}", json_text(version), Sys.getpid()))
	lent <- list()
	repeat {
		drop_interrupt()
		message <- wire_receive()
		if (message$verb == "run") {
			if (length(lent) > 0L)
				run_with_env(message, lent)
			else
				run(message)
			lent <- list()
			next
		}
		if (message$verb == "env") {
			lent <- read_env(message$payload)
			next
		}
		if (message$verb == "renew")
			renew(message$payload)
		answer(message$id, more = ",\"env\":true")
	}
})
