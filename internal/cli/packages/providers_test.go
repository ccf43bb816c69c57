package packages

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/cli/output"
)

func TestParseAPI(t *testing.T) {
	for text, want := range map[string]gvk{
		"Kafka":                          {Kind: "Kafka"},
		"Kafka.kafka.strimzi.io":         {Kind: "Kafka", Group: "kafka.strimzi.io"},
		"Kafka.v1beta2.kafka.strimzi.io": {Kind: "Kafka", Version: "v1beta2", Group: "kafka.strimzi.io"},
		"Kafka.v1":                       {Kind: "Kafka", Version: "v1"},
		"Service.v1beta.example.com":     {Kind: "Service", Group: "v1beta.example.com"},
	} {
		if got := parseAPI(text); got != want {
			t.Errorf("parseAPI(%q) = %#v, want %#v", text, got, want)
		}
	}
}

func TestAPIMatches(t *testing.T) {
	api := gvk{Group: "kafka.strimzi.io", Version: "v1", Kind: "KafkaProxy"}
	for asked, want := range map[string]bool{
		"KafkaProxy": true, "kafkaproxy": true, "kafkaproxies.kafka.strimzi.io": true, "kafkaproxies.v1.kafka.strimzi.io": true,
		"kafkaproxys": false, "Kafka": false, "KafkaProxy.strimzi.io": false, "KafkaProxy.v2.kafka.strimzi.io": false,
	} {
		if got := api.matches(parseAPI(asked)); got != want {
			t.Errorf("%s matches %q: %v", api, asked, got)
		}
	}
}

// TestNarrowListOfProviders checks that 60 columns suffice to distinguish rows by the version of the API.
func TestNarrowListOfProviders(t *testing.T) {
	rows := []output.Row{
		{Cells: []string{"strimzi-kafka-operator", "community", provides, "Kafka.v1.kafka.strimzi.io", "0.49.0", "1.2.0", ""}},
		{Cells: []string{"strimzi-kafka-operator", "sample", provides, "Kafka.v1beta2.kafka.strimzi.io", "0.23.0", "0.51.0", "no longer"}},
	}
	const want = `PACKAGE              CATALOG     DOES    API
strimzi-…-operator   community   prov…   Kafka.v1.…trimzi.io
strimzi-…-operator   sample      prov…   Kafka.v1b…trimzi.io
`
	var b bytes.Buffer
	out := output.NewFormat(&cobra.Command{})
	if err := out.Print(&output.Terminal{Writer: &b, Width: 60}, providerColumns, rows, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
