// Package program starts and stops the programs that talk to Kubernetes by controller-runtime: flags, log, signals, the
// manager. None of them has a leader. The main packages of cmd call it once each, from the main goroutine.
package program

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/transport"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fencing-agent/fencing-agent/k8s/client"
)

const (
	stopTime = 5 * time.Second // less than the time that the pod has to end
	syncWait = time.Second
)

// Flags are the flags of a program. All problems with them are reported at once.
type Flags struct {
	*flag.FlagSet
	Version  string
	logLevel slog.Level
	level    string
	version  bool
	wrong    []error
}

// NewFlags returns a set with --log-level and --version. linked is the version that the linker has set, if any.
func NewFlags(program, linked string) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(program, flag.ContinueOnError), Version: linked}
	if info, ok := debug.ReadBuildInfo(); ok {
		f.Version = cmp.Or(f.Version, info.Main.Version)
	}
	f.Version = cmp.Or(f.Version, "dev")
	f.SetOutput(io.Discard)
	f.StringVar(&f.level, "log-level", "info", "debug, info, warn or error; JSON on stderr")
	f.BoolVar(&f.version, "version", false, "print the version and exit")
	return f
}

// Read reads the flags. If they ask for the usage or the version, Read prints it, and the error is [flag.ErrHelp].
func (f *Flags) Read(args []string, stdout io.Writer, usage string) error {
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		f.SetOutput(stdout)
		f.PrintDefaults()
		return err
	case err == nil && f.version:
		fmt.Fprintln(stdout, f.Name(), f.Version)
		return flag.ErrHelp
	default:
		return err
	}
}

// Wrong records a problem if the condition "is" is true.
func (f *Flags) Wrong(is bool, format string, args ...any) {
	if is {
		f.wrong = append(f.wrong, fmt.Errorf(format, args...))
	}
}

// Check returns all problems.
func (f *Flags) Check() error {
	f.Wrong(f.NArg() > 0, "unexpected argument %q", f.Arg(0))
	f.Wrong(f.logLevel.UnmarshalText([]byte(f.level)) != nil, "--log-level is %q, but must be debug, info, warn or error", f.level)
	return errors.Join(f.wrong...)
}

// Main serves until SIGTERM or SIGINT, and returns the exit code. parsed is the problem with the arguments, or
// [flag.ErrHelp] if they only asked for what has been printed.
func (f *Flags) Main(parsed error, stderr io.Writer, serve func(context.Context, *slog.Logger) error) int {
	switch {
	case errors.Is(parsed, flag.ErrHelp):
		return 0
	case parsed != nil:
		fmt.Fprintf(stderr, "%s: %s; see %[1]s --help\n", f.Name(), strings.ReplaceAll(parsed.Error(), "\n", "; "))
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: f.logLevel, ReplaceAttr: readable}))
	if err := serve(ctx, log); err != nil {
		fmt.Fprintf(stderr, "%s: %s\n", f.Name(), strings.ReplaceAll(err.Error(), "\n", "\n"+f.Name()+": "))
		return 1
	}
	return 0
}

// readable prints durations as "5s" in JSON, where they would be nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// API configures how a program talks to the API server.
type API struct {
	Kubeconfig string
	UserAgent  string
	QPS        float32 // requests a second over a longer time; twice as many at once
	Wrap       transport.WrapperFunc
	Types      []func(*runtime.Scheme) error
}

// Manager returns a manager. Its health check succeeds while it runs, and its readiness check when its caches are
// filled.
func Manager(a API, o ctrl.Options, log *slog.Logger) (ctrl.Manager, error) {
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	rc, err := client.Load(a.Kubeconfig)
	if err != nil {
		return nil, err
	}
	rc.UserAgent, rc.QPS, rc.Burst = a.UserAgent, a.QPS, int(2*a.QPS)
	rc.Wrap(a.Wrap)
	o.Scheme, o.GracefulShutdownTimeout = runtime.NewScheme(), new(stopTime)
	for _, add := range a.Types {
		if err := add(o.Scheme); err != nil {
			return nil, fmt.Errorf("types of the API: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(rc, o)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	synced := func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), syncWait)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the watched objects have not been listed yet")
		}
		return nil
	}
	err = errors.Join(mgr.AddHealthzCheck("running", func(*http.Request) error { return nil }), mgr.AddReadyzCheck("synced", synced))
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return mgr, nil
}

// Run runs a manager until ctx ends. what names the program in the log; attrs are logged with it.
func Run(ctx context.Context, mgr ctrl.Manager, log *slog.Logger, what string, attrs ...any) error {
	log.Info(what+" started", append(attrs, "server", mgr.GetConfig().Host)...)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	log.Info(what + " stopped")
	return nil
}
