package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// The formats of the -o flag.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// printer prints a verb's result in the format that the user asked for. It is the
// value of the verb's -o flag.
type printer struct {
	format  string
	formats []string
}

// newPrinter gives cmd the flag -o with table, json and the further formats.
func newPrinter(cmd *cobra.Command, further ...string) *printer {
	p := &printer{format: formatTable, formats: append([]string{formatTable, formatJSON}, further...)}
	cmd.Flags().VarP(p, "output", "o", "format of the output: "+strings.Join(p.formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(p.formats, cobra.ShellCompDirectiveNoFileComp)) // fails for unknown flags only
	return p
}

// String, Set and Type make the printer the value of a flag.
func (p *printer) String() string { return p.format }

func (p *printer) Set(format string) error {
	if !slices.Contains(p.formats, format) {
		return fmt.Errorf("it must be one of %s", strings.Join(p.formats, ", "))
	}
	p.format = format
	return nil
}

func (p *printer) Type() string { return "format" }

// print writes result to w. For JSON it is marshalled, for YAML it prints itself, and
// for a table the given function fills in the rows.
func (p *printer) print(w io.Writer, result any, rows func(*table)) error {
	switch p.format {
	case formatJSON:
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(result); err != nil {
			return fmt.Errorf("print result: %w", err)
		}
		return nil
	case formatYAML:
		text, err := result.(interface{ YAML() ([]byte, error) }).YAML()
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			return fmt.Errorf("print result: %w", err)
		}
		return nil
	default:
		t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
		rows(t)
		if err := t.tabs.Flush(); err != nil {
			return fmt.Errorf("print result: %w", err)
		}
		return nil
	}
}

// table collects rows of cells and aligns their columns.
type table struct{ tabs *tabwriter.Writer }

// row adds one row. Errors of the writer are returned when the table is flushed.
func (t *table) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t.tabs, "\t")
		}
		fmt.Fprint(t.tabs, c)
	}
	fmt.Fprintln(t.tabs)
}

// printFolded prints a table, and on a terminal wraps the last column, which has this heading, if there is room for
// that.
func (p *printer) printFolded(env *environment, result any, heading string, rows func(*table)) error {
	const least = 20
	var b bytes.Buffer
	if err := p.print(&b, result, rows); err != nil {
		return err
	}
	text := b.Bytes()
	if at, w := bytes.Index(text, []byte(heading)), width(env); p.format == formatTable && at > 0 && at < w-least {
		text = foldCells(text, at, w)
	}
	return writeText(env, text)
}

// colorful reports whether the output is a terminal, and colors are not switched off.
func colorful(env *environment) bool {
	f, ok := env.stdout.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && env.getenv("NO_COLOR") == ""
}
