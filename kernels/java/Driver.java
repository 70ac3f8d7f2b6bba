// SPDX-License-Identifier: Apache-2.0
// The Java driver of PROTOCOL.md, for JDK 17 and later, on the jdk.jshell API: java @arguments
//
// One file, because `java Driver.java` takes no more before Java 22. What is in it, in this order:
//
//	Driver   the loop and one call      Fault    errors with the user's lines
//	Wire     messages on fd 3, JSON     Show     values as MIME bundles
//	Control  where snippets run         Renew    generators seeded anew
//	Loader   the snippets' classes      Lent     variables of one call
//
// JShell splits a cell into snippets and keeps their state. They run in this very process (JShell's local execution), so
// that there is one machine to start and the code's own System.out is the process's.
//
// JShell gives a value as text in its own spelling, with quotes. Control lets it call a method of ours instead of the
// snippet's, which calls the snippet, keeps the value and makes its text there, where an interrupt still ends it.
//
// SIGINT stops the snippet's thread by JShell's stop(): Thread.stop() up to Java 19, later by checks that JShell writes into
// the snippets' loops and by Thread.interrupt(). A loop in a library that heeds neither cannot be interrupted there.
//
// Java has no call that changes its environment. So each variable of it is a system property, too, where there is none of that
// name: code can set those. Lent changes both, by the map behind System.getenv(). A new process gets what is in that map only
// where the code has asked for ProcessBuilder.environment(); else it gets what this process was started with.

import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.ExpressionSnippet;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.UnresolvedReferenceException;
import jdk.jshell.execution.LoaderDelegate;
import jdk.jshell.execution.LocalExecutionControl;
import jdk.jshell.spi.ExecutionControl;
import jdk.jshell.spi.ExecutionControl.ClassBytecodes;
import jdk.jshell.spi.ExecutionControl.ClassInstallException;
import jdk.jshell.spi.ExecutionControl.InternalException;
import jdk.jshell.spi.ExecutionControlProvider;
import jdk.jshell.spi.ExecutionEnv;

public class Driver {
	private static final String[] IMPORTS = {
		"java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.time.*", "java.util.*", "java.util.concurrent.*",
		"java.util.function.*", "java.util.regex.*", "java.util.stream.*",
	};
	static final Map<String, Place> places = new HashMap<>(); // of snippets, by their id
	private static JShell shell;
	private static Wire wire;
	private static PrintStream out, err;
	private static String call; // the id of the one that runs; null between calls
	private static boolean isInterrupted;
	private static int count;
	private static int nextId;

	// Where a snippet begins in its cell.
	record Place(int cell, int line) {}

	public static void main(String[] args) throws Exception {
		wire = new Wire();
		out = stream(FileDescriptor.out);
		err = stream(FileDescriptor.err);
		putBack();
		// Now, not when JShell is made: a call may be on its way meanwhile.
		wire.send("ready", "0", Map.of("language", "java", "version", System.getProperty("java.version"), "pid", ProcessHandle.current().pid(), "env", true));
		System.getenv().forEach((name, value) -> {
			if (!name.isEmpty() && System.getProperty(name) == null)
				System.setProperty(name, value);
		});
		shell = JShell.builder().executionEngine(new Control.Provider(), Map.of())
			.idGenerator((snippet, number) -> String.valueOf(++nextId)).build();
		for (String name : IMPORTS)
			shell.eval("import " + name + ";");
		sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> interrupt());
		Runtime.getRuntime().addShutdownHook(new Thread(Driver::flush));
		for (;;) {
			Wire.Message message = wire.receive();
			if (message.verb().equals("run")) {
				run(message);
				continue;
			}
			if (message.verb().equals("env")) {
				Lent.keep(message.payload());
				continue;
			}
			if (message.verb().equals("renew"))
				Renew.all(message.payload());
			answer(message.id(), new LinkedHashMap<>(Map.of("status", "ok", "env", true)));
		}
	}

	private static PrintStream stream(FileDescriptor fd) {
		return new PrintStream(new java.io.BufferedOutputStream(new FileOutputStream(fd), 8192), true, StandardCharsets.UTF_8);
	}

	private static void putBack() {
		System.setOut(out);
		System.setErr(err);
	}

	static void flush() {
		System.out.flush();
		System.err.flush();
		out.flush();
		err.flush();
	}

	private static void answer(String id, Map<String, Object> done) {
		done.put("count", count);
		wire.send("done", id, done);
	}

	private static void finish(String status) {
		Map<String, Object> done = new LinkedHashMap<>();

		done.put("status", status);
		synchronized (Driver.class) {
			done.put("cpu_us", Math.max(0, cpuMicros() - cpuBefore));
			answer(call, done);
			call = null;
		}
	}

	private static long cpuBefore;

	private static long cpuMicros() {
		return ProcessHandle.current().info().totalCpuDuration().map(d -> d.toNanos() / 1000).orElse(0L);
	}

	// On a thread of the machine's own. A first signal may find JShell still compiling: the next snippet is then not begun.
	private static void interrupt() {
		synchronized (Driver.class) {
			if (call == null)
				return;
			isInterrupted = true;
		}
		shell.stop();
	}

	private static synchronized void begin(String id) {
		call = id;
		isInterrupted = false;
		count++;
		cpuBefore = cpuMicros();
	}

	private static synchronized boolean isInterrupted() {
		return isInterrupted;
	}

	private static void run(Wire.Message message) {
		begin(message.id());
		putBack();
		Lent.lend();
		Fault fault = null;
		try {
			fault = evaluate(new String(message.payload(), StandardCharsets.UTF_8));
		} catch (Throwable thrown) { // of JShell itself, or no memory
			fault = new Fault(thrown.getClass().getName(), String.valueOf(thrown.getMessage()), List.of(String.valueOf(thrown)));
		}
		if (isInterrupted())
			fault = new Fault("InterruptedException", "the call was interrupted", List.of("InterruptedException: the call was interrupted"));
		Lent.takeBack();
		flush();
		if (fault != null)
			wire.send("error", call, fault.json());
		else if (Control.shown != null)
			wire.send("result", call, Control.shown);
		finish(fault == null ? "ok" : "error");
	}

	// Null, or what is wrong. A result is Control.shown.
	private static Fault evaluate(String code) {
		String rest = code;
		int line = 1;

		Control.shown = null;
		while (!rest.isBlank() && !isInterrupted()) {
			SourceCodeAnalysis.CompletionInfo info = shell.sourceCodeAnalysis().analyzeCompletion(rest);
			String source = info.completeness().isComplete() ? info.source() : rest;
			if (source == null || source.isBlank()) { // comments alone
				if (info.completeness() != SourceCodeAnalysis.Completeness.EMPTY)
					return Fault.incomplete(rest, line);
				return null;
			}
			int blank = source.length() - source.stripLeading().length();
			int first = line + lines(source.substring(0, blank));
			Fault fault = evaluateOne(source.substring(blank), first);
			if (fault != null)
				return fault;
			String next = info.completeness().isComplete() ? info.remaining() : "";
			line += lines(rest.substring(0, rest.length() - next.length()));
			rest = next;
		}
		return null;
	}

	private static int lines(String text) {
		return (int) text.chars().filter(c -> c == '\n').count();
	}

	private static Fault evaluateOne(String source, int line) {
		places.put(String.valueOf(nextId + 1), new Place(count, line));
		Control.begin();
		List<SnippetEvent> events = shell.eval(source);
		Fault fault = null;

		Control.shown = null;
		for (SnippetEvent event : events) {
			Snippet snippet = event.snippet();
			if (event.causeSnippet() != null) // a declaration that this one replaced or completed
				continue;
			if (event.status() == Snippet.Status.REJECTED)
				return Fault.rejected(shell, snippet, source, line);
			if (event.exception() != null)
				fault = Fault.thrown(event.exception());
			else if (event.status() == Snippet.Status.RECOVERABLE_DEFINED || event.status() == Snippet.Status.RECOVERABLE_NOT_DEFINED)
				warn((DeclarationSnippet) snippet);
			else if (snippet instanceof ExpressionSnippet || snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND)
				Control.shown = Control.made;
		}
		return fault;
	}

	// What Loader gives the code for System.exit().
	public static void exit(int code) {
		synchronized (Driver.class) {
			if (call != null) {
				flush();
				answer(call, new LinkedHashMap<>(Map.of("status", "exit", "exit_code", code & 0xff)));
				call = null;
			}
		}
		Runtime.getRuntime().exit(code);
	}

	// Java may refer to what comes later; code that is run before it comes fails.
	private static void warn(DeclarationSnippet snippet) {
		List<String> missing = new ArrayList<>();

		shell.unresolvedDependencies(snippet).forEach(missing::add);
		if (!missing.isEmpty())
			err.println("note: " + snippet.name() + " cannot be used until there is " + String.join(", ", missing));
	}
}

// Frames of PROTOCOL.md on the socket that the process was given as fd 3. Java has no public way to an inherited descriptor.
class Wire {
	private static final int LINE_MAX = 64, PAYLOAD_MAX = 16 << 20, PEER_IS_BROKEN = 70;
	private final FileInputStream in;
	private final FileOutputStream out;

	record Message(String verb, String id, byte[] payload) {}

	Wire() throws ReflectiveOperationException {
		Constructor<FileDescriptor> make = FileDescriptor.class.getDeclaredConstructor(int.class);
		make.setAccessible(true);
		FileDescriptor fd = make.newInstance(3);
		in = new FileInputStream(fd);
		out = new FileOutputStream(fd);
	}

	Message receive() throws IOException {
		StringBuilder line = new StringBuilder();

		for (int c; (c = in.read()) != '\n'; line.append((char) c)) {
			if (c < 0)
				Runtime.getRuntime().halt(line.length() == 0 ? 0 : PEER_IS_BROKEN);
			if (line.length() >= LINE_MAX)
				Runtime.getRuntime().halt(PEER_IS_BROKEN);
		}
		String[] words = line.toString().split(" ", -1);
		if (!line.toString().matches("(run|env|renew|sync) \\d{1,18} \\d{1,8}") || Integer.parseInt(words[2]) > PAYLOAD_MAX)
			Runtime.getRuntime().halt(PEER_IS_BROKEN);
		byte[] payload = new byte[Integer.parseInt(words[2])];
		for (int at = 0, n; at < payload.length; at += n) { // readNBytes() of a file asks for its position
			n = in.read(payload, at, payload.length - at);
			if (n < 0)
				Runtime.getRuntime().halt(0);
		}
		return new Message(words[0], words[1], payload);
	}

	void send(String verb, String id, Object payload) {
		byte[] body = json(payload).getBytes(StandardCharsets.UTF_8);
		byte[] head = (verb + " " + id + " " + body.length + "\n").getBytes(StandardCharsets.US_ASCII);
		byte[] whole = Arrays.copyOf(head, head.length + body.length);

		System.arraycopy(body, 0, whole, head.length, body.length);
		try {
			out.write(whole);
		} catch (IOException gone) {
			Runtime.getRuntime().halt(0); // the host is gone, or the code closed the socket
		}
	}

	private static String json(Object value) {
		StringBuilder to = new StringBuilder();

		put(value, to);
		return to.toString();
	}

	private static void put(Object value, StringBuilder to) {
		if (value instanceof Map<?, ?> map) {
			String comma = "{";
			for (Map.Entry<?, ?> entry : map.entrySet()) {
				putText(entry.getKey().toString(), to.append(comma));
				put(entry.getValue(), to.append(':'));
				comma = ",";
			}
			to.append(map.isEmpty() ? "{}" : "}");
		} else if (value instanceof List<?> list) {
			String comma = "[";
			for (Object item : list) {
				put(item, to.append(comma));
				comma = ",";
			}
			to.append(list.isEmpty() ? "[]" : "]");
		} else if (value instanceof Number || value instanceof Boolean) {
			to.append(value);
		} else {
			putText(String.valueOf(value), to);
		}
	}

	// A NUL or half a surrogate pair is replaced: every reader is to take it.
	private static void putText(String text, StringBuilder to) {
		to.append('"');
		for (int i = 0; i < text.length(); i++) {
			char c = text.charAt(i);
			if (c == '"' || c == '\\')
				to.append('\\').append(c);
			else if (Character.isHighSurrogate(c) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1)))
				to.append(c).append(text.charAt(++i));
			else if (c == 0 || Character.isSurrogate(c))
				to.append('\ufffd');
			else if (c < ' ')
				to.append(String.format("\\u%04x", (int) c));
			else
				to.append(c);
		}
		to.append('"');
	}
}

// JShell's own local execution, with the snippet's value kept.
class Control extends LocalExecutionControl {
	static Map<String, Object> shown; // the result so far
	static Map<String, Object> made; // of the snippet that ran last
	private static Method snippet;

	static class Provider implements ExecutionControlProvider {
		public String name() {
			return "cloche";
		}

		public ExecutionControl generate(ExecutionEnv env, Map<String, String> parameters) {
			return new Control();
		}
	}

	Control() {
		super(new Loader());
	}

	static void begin() {
		made = null;
	}

	@Override
	protected String invoke(Method doit) throws Exception {
		Method instead = Control.class.getDeclaredMethod("call");

		snippet = doit;
		instead.setAccessible(true);
		return super.invoke(instead);
	}

	// What JShell calls, on the snippet's thread.
	public static Object call() throws Throwable {
		try {
			Object value = snippet.invoke(null);
			made = snippet.getReturnType() == void.class ? null : Show.bundle(value);
		} catch (InvocationTargetException e) {
			throw e.getCause();
		}
		return null;
	}
}

// The classes of snippets. A call of System.exit() in them is made one of Driver.exit(), which tells the code's status before
// the process ends: a shutdown hook is not told it. To call another class, only the constant that names the method changes.
class Loader extends java.net.URLClassLoader implements LoaderDelegate {
	private static final int UTF8 = 1, LONG = 5, DOUBLE = 6, CLASS = 7, STRING = 8, METHOD = 10;
	private static final int HANDLE = 15, METHOD_TYPE = 16, MODULE = 19, PACKAGE = 20, COUNT_AT = 8;
	private final Map<String, Class<?>> classes = new HashMap<>();

	Loader() {
		super(new java.net.URL[0], Driver.class.getClassLoader());
	}

	public void load(ClassBytecodes[] given) throws ClassInstallException {
		boolean[] loaded = new boolean[given.length];

		try {
			for (ClassBytecodes one : given) {
				byte[] bytes = redirectExit(one.bytecodes());
				classes.put(one.name(), defineClass(one.name(), bytes, 0, bytes.length, (java.security.ProtectionDomain) null));
			}
			for (int i = 0; i < given.length; i++) {
				classes.get(given[i].name()).getDeclaredMethods();
				loaded[i] = true;
			}
		} catch (Throwable e) {
			throw new ClassInstallException("load: " + e, loaded);
		}
	}

	public void classesRedefined(ClassBytecodes[] given) {}

	public void addToClasspath(String path) throws InternalException {
		try {
			for (String one : path.split(java.io.File.pathSeparator))
				addURL(new java.io.File(one).toURI().toURL());
		} catch (java.net.MalformedURLException e) {
			throw new InternalException(e.toString());
		}
	}

	@Override
	public Class<?> findClass(String name) throws ClassNotFoundException {
		Class<?> found = classes.get(name);

		return found == null ? super.findClass(name) : found;
	}

	private static byte[] redirectExit(byte[] given) {
		ByteBuffer in = ByteBuffer.wrap(given);
		int count = in.getShort(COUNT_AT) & 0xffff;
		int[] at = new int[count];
		int end = findConstants(in, at);

		for (int i = 1; i < count && count < 0xfffe; i++) {
			if (at[i] == 0 || in.get(at[i]) != METHOD || !isExit(in, at, at[i]))
				continue;
			byte[] more = ByteBuffer.allocate(12).put((byte) UTF8).putShort((short) 6).put("Driver".getBytes(StandardCharsets.US_ASCII))
				.put((byte) CLASS).putShort((short) count).array();
			ByteBuffer out = ByteBuffer.allocate(given.length + more.length).put(given, 0, end).put(more).put(given, end, given.length - end);
			return out.putShort(COUNT_AT, (short) (count + 2)).putShort(at[i] + 1, (short) (count + 1)).array();
		}
		return given;
	}

	// Where each constant begins, and the end of them all. A long or double takes two numbers.
	private static int findConstants(ByteBuffer in, int[] at) {
		int p = COUNT_AT + 2;

		for (int i = 1; i < at.length; i++) {
			int tag = in.get(p);
			at[i] = p;
			switch (tag) {
			case UTF8 -> p += 3 + (in.getShort(p + 1) & 0xffff);
			case CLASS, STRING, METHOD_TYPE, MODULE, PACKAGE -> p += 3;
			case HANDLE -> p += 4;
			case LONG, DOUBLE -> p += 9;
			default -> p += 5;
			}
			i += tag == LONG || tag == DOUBLE ? 1 : 0;
		}
		return p;
	}

	private static boolean isExit(ByteBuffer in, int[] at, int method) {
		int type = at[in.getShort(method + 1) & 0xffff], name = at[in.getShort(method + 3) & 0xffff];

		return text(in, at, type + 1).equals("java/lang/System") && text(in, at, name + 1).equals("exit") && text(in, at, name + 3).equals("(I)V");
	}

	private static String text(ByteBuffer in, int[] at, int reference) {
		int p = at[in.getShort(reference) & 0xffff];

		return new String(in.array(), p + 3, in.getShort(p + 1) & 0xffff, StandardCharsets.UTF_8);
	}
}

// What went wrong, in the user's own lines.
record Fault(String name, String message, List<String> lines) {
	private static final int FRAMES_MAX = 50;

	Map<String, Object> json() {
		return Map.of("name", name, "message", message, "traceback", lines);
	}

	static Fault incomplete(String source, int line) {
		return new Fault("SyntaxError", "the code is incomplete", List.of("line " + line + ": the code is incomplete", source.strip()));
	}

	static Fault rejected(JShell shell, Snippet snippet, String source, int line) {
		List<String> lines = new ArrayList<>();
		String first = null;

		for (Diag diag : shell.diagnostics(snippet).toList()) {
			if (!diag.isError())
				continue;
			int at = (int) Math.max(0, Math.min(diag.getPosition(), source.length()));
			int from = source.lastIndexOf('\n', at - 1) + 1;
			int to = source.indexOf('\n', from);
			int row = line + (int) source.substring(0, from).chars().filter(c -> c == '\n').count();
			String message = diag.getMessage(java.util.Locale.ENGLISH).replaceFirst("\\n *location: class *$", ""); // of JShell's own
			first = first == null ? message : first;
			lines.addAll(("line " + row + ": " + message).lines().toList());
			lines.add("  " + source.substring(from, to < 0 ? source.length() : to).replace('\t', ' '));
			lines.add("  " + " ".repeat(at - from) + "^");
		}
		return new Fault("CompilationError", first == null ? "it does not compile" : first, lines);
	}

	static Fault thrown(JShellException exception) {
		List<String> lines = new ArrayList<>();

		if (exception instanceof UnresolvedReferenceException unresolved) {
			String name = unresolved.getSnippet().name();
			lines.add(name + " refers to something that is not there");
			putFrames(exception, lines);
			return new Fault("UnresolvedReferenceException", lines.get(0), lines);
		}
		for (Throwable e = exception; e != null && lines.size() < FRAMES_MAX; e = e.getCause()) {
			lines.add((e == exception ? "" : "Caused by: ") + nameOf(e) + (e.getMessage() == null ? "" : ": " + e.getMessage()));
			putFrames(e, lines);
		}
		return new Fault(shortName(nameOf(exception)), exception.getMessage() == null ? "" : exception.getMessage(), lines);
	}

	private static String nameOf(Throwable e) {
		return e instanceof EvalException eval ? eval.getExceptionClassName() : e.getClass().getName();
	}

	private static String shortName(String name) {
		return name.startsWith("java.lang.") ? name.substring("java.lang.".length()) : name;
	}

	// JShell names a snippet's file by its id: "#12". Its lines are told as those of the cell.
	private static void putFrames(Throwable e, List<String> lines) {
		for (StackTraceElement frame : e.getStackTrace()) {
			String file = frame.getFileName();
			Driver.Place place = file == null || !file.startsWith("#") ? null : Driver.places.get(file.substring(1));
			if (frame.getClassName().equals("Control") || lines.size() >= FRAMES_MAX)
				return;
			if (place == null)
				lines.add("    at " + frame);
			else
				lines.add("    at " + (frame.getMethodName().isEmpty() ? "" : frame.getMethodName() + " ") + "(cell-" + place.cell() + ":"
					+ (place.line() + Math.max(1, frame.getLineNumber()) - 1) + ")");
		}
	}
}

// A value as what shows it: its text, and a picture as PNG.
class Show {
	private static final int TEXT_MAX = 1 << 20, PICTURE_MAX = 6 << 20;

	static Map<String, Object> bundle(Object value) {
		Map<String, Object> data = new LinkedHashMap<>(), bundle = new LinkedHashMap<>();
		String text = text(value);

		if (text.length() > TEXT_MAX) {
			bundle.put("truncated", true);
			text = text.substring(0, TEXT_MAX) + "… [cut: " + text.length() + " characters in all]";
		}
		data.put("text/plain", text);
		if (value instanceof java.awt.image.RenderedImage image)
			putPicture(image, data, bundle);
		bundle.put("data", data);
		bundle.put("metadata", Map.of());
		return bundle;
	}

	private static void putPicture(java.awt.image.RenderedImage image, Map<String, Object> data, Map<String, Object> bundle) {
		ByteArrayOutputStream png = new ByteArrayOutputStream();

		try {
			if (!javax.imageio.ImageIO.write(image, "png", png))
				return;
		} catch (IOException e) {
			return;
		}
		if (png.size() > PICTURE_MAX)
			bundle.put("truncated", true);
		else
			data.put("image/png", Base64.getEncoder().encodeToString(png.toByteArray()));
	}

	private static String text(Object value) {
		if (value == null || !value.getClass().isArray())
			return String.valueOf(value);
		String deep = Arrays.deepToString(new Object[] {value}); // also of ints
		return deep.substring(1, deep.length() - 1);
	}
}

// After a fork or restore: no two copies are to draw the same numbers. What cannot be reached stays as it is.
class Renew {
	static void all(byte[] bytes) {
		ByteBuffer seeds = ByteBuffer.wrap(Arrays.copyOf(bytes, 32));

		Math.random(); // makes the generator, if there is none
		apply("java.lang.Math$RandomNumberGeneratorHolder", "randomNumberGenerator", seeds.getLong());
		apply("java.util.Random", "seedUniquifier", seeds.getLong());
		apply("java.util.concurrent.ThreadLocalRandom", "seeder", seeds.getLong());
		apply("java.util.SplittableRandom", "defaultGen", seeds.getLong());
	}

	private static void apply(String type, String name, long seed) {
		try {
			Field field = Class.forName(type).getDeclaredField(name);
			field.setAccessible(true);
			Object found = field.get(null);
			if (found instanceof Random random)
				random.setSeed(seed);
			else if (found instanceof AtomicLong number)
				number.set(seed);
		} catch (ReflectiveOperationException | RuntimeException e) {
			return;
		}
	}
}

// Variables of the environment that are there for one call. What the code has set to something else meanwhile stays.
class Lent {
	private static final Map<String, String> environment = open();
	private static final List<Variable> lent = new ArrayList<>();
	private static String lines = "";

	record Variable(String name, String value, String before, String propertyBefore) {}

	// Java's own map, or without it an empty one: then there are only the properties.
	@SuppressWarnings("unchecked")
	private static Map<String, String> open() {
		try {
			Field field = Class.forName("java.util.Collections$UnmodifiableMap").getDeclaredField("m");
			field.setAccessible(true);
			return (Map<String, String>) field.get(System.getenv());
		} catch (ReflectiveOperationException | RuntimeException e) {
			return new HashMap<>();
		}
	}

	// For the next call.
	static void keep(byte[] payload) {
		lines = new String(payload, StandardCharsets.UTF_8);
	}

	static void lend() {
		for (String line : lines.split("\n")) {
			int at = line.indexOf('=');
			if (at <= 0)
				continue;
			String name = line.substring(0, at), value = line.substring(at + 1);
			lent.add(new Variable(name, value, environment.put(name, value), System.setProperty(name, value)));
		}
		lines = "";
	}

	static void takeBack() {
		for (Variable one : lent) {
			if (one.before() == null)
				environment.remove(one.name());
			else
				environment.put(one.name(), one.before());
			if (!one.value().equals(System.getProperty(one.name())))
				continue;
			if (one.propertyBefore() == null)
				System.clearProperty(one.name());
			else
				System.setProperty(one.name(), one.propertyBefore());
		}
		lent.clear();
	}
}
