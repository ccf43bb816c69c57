package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	xterm "golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// fieldManager is who the API server notes as the owner of the fields that the plugin sets.
const fieldManager = "kubectl-catalog"

// A change is how a command that changes objects is to do it, and to tell of it: --dry-run and -o mean what they mean in kubectl.
type change struct {
	flags  *genericclioptions.PrintFlags
	dryRun cmdutil.DryRunStrategy
}

// newChange adds the flags to a command, which has to call begin.
func newChange(cmd *cobra.Command) *change {
	ch := &change{flags: genericclioptions.NewPrintFlags("").WithTypeSetter(scheme)}
	ch.flags.AddFlags(cmd)
	cmdutil.AddDryRunFlag(cmd)
	formats := ch.flags.AllowedFormats()
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]cobra.Completion{"none", "client", "server"}, cobra.ShellCompDirectiveNoFileComp))
	return ch
}

func (ch *change) begin(cmd *cobra.Command) error {
	var err error
	if ch.dryRun, err = cmdutil.GetDryRunStrategy(cmd); err != nil {
		return usageError{err}
	}
	_, err = ch.printer("")
	return err
}

// isDry tells whether nothing is to be changed.
func (ch *change) isDry() bool { return ch.dryRun != cmdutil.DryRunNone }

// isTold tells whether the change is told of in words, not as -o asks for.
func (ch *change) isTold() bool { return *ch.flags.OutputFormat == "" }

func (ch *change) printer(what string) (printers.ResourcePrinter, error) {
	flags := *ch.flags
	name := *flags.NamePrintFlags
	name.Operation = what
	flags.NamePrintFlags = &name
	printer, err := cmdutil.PrintFlagsWithDryRunStrategy(&flags, ch.dryRun).ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		err = noFormat(*ch.flags.OutputFormat, ch.flags.AllowedFormats())
	}
	return printer, err
}

// tell prints the object, or that something was done to it: "catalogsource.catalogd.operatorframework.io/sample suspended".
func (e *env) tell(ch *change, c *v1beta1.CatalogSource, what string) error {
	printer, err := ch.printer(what)
	if err != nil {
		return err
	}
	return printer.PrintObj(c, e.stdout)
}

// patch sets fields of a catalog, and no others, so that whoever owns those keeps them. A field that is null is removed.
// A uid among them has the API server refuse where the object is another one of the name by now.
func (e *env) patch(ctx context.Context, ch *change, c *v1beta1.CatalogSource, fields map[string]any) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	opts := []client.PatchOption{client.FieldOwner(fieldManager)}
	if ch.dryRun != cmdutil.DryRunNone { // with --dry-run=client too: the API server knows best how a patch applies
		opts = append(opts, client.DryRunAll)
	}
	api, err := e.client()
	if err != nil {
		return err
	}
	name := c.Name
	err = api.Patch(ctx, c, client.RawPatch(types.MergePatchType, data), opts...)
	if apierrors.IsInvalid(err) && slices.ContainsFunc(causes(err), func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" }) {
		return madeAnew(name)
	}
	return missing(err, name)
}

// confirm asks a person whether to go on. Where nobody can answer, yes has to be said by the flag.
func (e *env) confirm(ctx context.Context, question string) error {
	in, ok := e.In.(*os.File)
	if !ok || !xterm.IsTerminal(int(in.Fd())) {
		return usagef("%s Nobody can answer here: say --yes if that is meant", question)
	}
	fmt.Fprintf(e.stderr, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // which a signal does not wake
		line, _ := bufio.NewReader(in).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return fmt.Errorf("nothing is done, as the answer is no")
	case <-ctx.Done():
		fmt.Fprintln(e.stderr) // the question waits in its line
		return ctx.Err()
	}
}
