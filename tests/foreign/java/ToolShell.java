import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools one after the other, in one JVM: starting one takes far
 * longer than what most tools do. A line in: stdin in base64, class and arguments, with unit
 * separators between them. A line out: exit status, stdout and stderr, the last two in base64.
 */
public final class ToolShell {
    private static final String UNIT_SEPARATOR = "\u001f";

    private ToolShell() {
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        BufferedReader questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split(UNIT_SEPARATOR, -1);
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(words[0])));
            answers.println(run(words[1], Arrays.copyOfRange(words, 2, words.length)));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String run(String tool, String[] arguments) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        CompletableFuture<Integer> status = new CompletableFuture<>();
        Exit.setExitProcedure((code, message) -> endHere(status, code));
        Exit.setHaltProcedure((code, message) -> endHere(status, code));
        Queue<Runnable> hooks = new ConcurrentLinkedQueue<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        Thread thread = new Thread(() -> status.complete(statusOf(tool, arguments)));
        thread.setDaemon(true);
        thread.start();
        int code = status.get();
        hooks.forEach(Runnable::run); // a producer sends what it still has
        return code + " " + base64(out) + " " + base64(err);
    }

    /** What comes after an exit must not run: the tool's thread stays here. */
    private static void endHere(CompletableFuture<Integer> status, int code) {
        status.complete(code);
        while (true) {
            LockSupport.park();
        }
    }

    private static int statusOf(String tool, String[] arguments) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException thrown) {
            thrown.getCause().printStackTrace();
        } catch (ReflectiveOperationException wrong) {
            wrong.printStackTrace();
        }
        return 1;
    }

    private static String base64(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
