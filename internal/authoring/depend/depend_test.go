package depend

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// catalogOf reads lines: "package DEFAULT-CHANNEL", or "package/channel VERSION PROPERTY...".
func catalogOf(t testing.TB, text string) *Catalog {
	t.Helper()
	c := &Catalog{}
	add := func(format string, args ...any) {
		b, err := scan.ParseBlob(fmt.Appendf(nil, format, args...))
		must.Succeed(t, err)
		must.Succeed(t, c.Add(b))
	}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		pkg, channel, isBundle := strings.Cut(fields[0], "/")
		if !isBundle {
			add(`{"schema":"olm.package","name":%q,"defaultChannel":%q}`, pkg, fields[1])
			continue
		}
		name := pkg + ".v" + fields[1]
		add(`{"schema":"olm.channel","package":%q,"name":%q,"entries":[{"name":%q}]}`, pkg, channel, name)
		if !seen[name] {
			properties := append([]string{fmt.Sprintf(`{"type":"olm.package","value":{"packageName":%q,"version":%q}}`, pkg, fields[1])}, fields[2:]...)
			add(`{"schema":"olm.bundle","package":%q,"name":%q,"properties":[%s]}`, pkg, name, strings.Join(properties, ","))
		}
		seen[name] = true
	}
	return c
}

const (
	needsDB    = `{"type":"olm.package.required","value":{"packageName":"db","versionRange":">=1.0.0\u0020<3.0.0"}}`
	needsAPI   = `{"type":"olm.gvk.required","value":{"group":"db.example","version":"v1","kind":"DB"}}`
	hasAPI     = `{"type":"olm.gvk","value":{"group":"db.example","version":"v1","kind":"DB"}}`
	needsOther = `{"type":"olm.package.required","value":{"packageName":"other","versionRange":"1.x"}}`
)

func constraintOf(value string) string { return `{"type":"olm.constraint","value":` + value + `}` }

func TestClose(t *testing.T) {
	const db = "db stable\ndb/stable 1.0.0\ndb/stable 2.0.0\ndb/stable 3.0.0\ndb/beta 2.5.0\n"
	for name, test := range map[string]struct {
		catalog string
		keep    string // bundles; those of app by default
		want    string
	}{
		"nothing required": {catalog: "app c\napp/c 1.0.0\n"},
		"highest of the default channel": {
			catalog: db + "app c\napp/c 1.0.0 " + needsDB,
			want:    `package db >=1.0.0 <3.0.0, required by app: db 2.0.0 of channel "stable"`,
		},
		"another channel if the default has none": {
			catalog: "db stable\ndb/stable 3.0.0\ndb/beta 2.5.0\napp c\napp/c 1.0.0 " + needsDB,
			want:    `package db >=1.0.0 <3.0.0, required by app: db 2.5.0 of channel "beta"`,
		},
		"kept already": {
			catalog: db + "app c\napp/c 1.0.0 " + needsDB, keep: "app.v1.0.0 db.v1.0.0",
		},
		"kept in a wrong version": {
			catalog: db + "app c\napp/c 1.0.0 " + needsDB, keep: "app.v1.0.0 db.v3.0.0",
			want: `package db >=1.0.0 <3.0.0, required by app: db 2.0.0 of channel "stable"`,
		},
		"no such package": {
			catalog: "app c\napp/c 1.0.0 " + needsDB,
			want:    "unmet: package db >=1.0.0 <3.0.0, required by app: the catalog does not have the package",
		},
		"no such version": {
			catalog: "db c\ndb/c 4.0.0\napp c\napp/c 1.0.0 " + needsDB,
			want:    "unmet: package db >=1.0.0 <3.0.0, required by app: no version of the package in the catalog is in the range",
		},
		"invalid range": {
			catalog: "app c\napp/c 1.0.0 " + strings.Replace(needsDB, `>=1.0.0\u0020<3.0.0`, "~1", 1),
			want:    `unmet: package db ~1, required by app: the range is invalid: Could not parse Range "~1": Could not parse comparator "~" in "~1"`,
		},
		"API": {
			catalog: "db c\ndb/c 1.0.0 " + hasAPI + "\ndb/c 2.0.0\napp c\napp/c 1.0.0 " + needsAPI,
			want:    `API db.example/v1/DB, required by app: db 1.0.0 of channel "c"`,
		},
		"API of two packages": {
			catalog: "b c\nb/c 1.0.0 " + hasAPI + "\na c\na/c 1.0.0 " + hasAPI + "\napp c\napp/c 1.0.0 " + needsAPI,
			want:    `API db.example/v1/DB, required by app: a 1.0.0 of channel "c"; also provided by b`,
		},
		"API in a default channel first": {
			catalog: "b c\nb/c 1.0.0 " + hasAPI + "\na c\na/beta 1.0.0 " + hasAPI + "\napp c\napp/c 1.0.0 " + needsAPI,
			want:    `API db.example/v1/DB, required by app: b 1.0.0 of channel "c"; also provided by a`,
		},
		"API of nothing": {
			catalog: "app c\napp/c 1.0.0 " + needsAPI,
			want:    "unmet: API db.example/v1/DB, required by app: no package of the catalog provides it",
		},
		"requirements of a choice": {
			catalog: "other c\nother/c 1.1.0\ndb c\ndb/c 1.0.0 " + needsOther + "\napp c\napp/c 1.0.0 " + needsDB,
			want: `package db >=1.0.0 <3.0.0, required by app: db 1.0.0 of channel "c"
package other 1.x, required by db: other 1.1.0 of channel "c"`,
		},
		"circle": {
			catalog: "other c\nother/c 1.1.0 " + needsDB + "\ndb c\ndb/c 1.0.0 " + needsOther + "\napp c\napp/c 1.0.0 " + needsDB,
			want: `package db >=1.0.0 <3.0.0, required by app, other: db 1.0.0 of channel "c"
package other 1.x, required by db: other 1.1.0 of channel "c"`,
		},
		"several with one requirement": {
			catalog: db + "a c\na/c 1.0.0 " + needsDB + "\na/c 2.0.0 " + needsDB + "\nb c\nb/c 1.0.0 " + needsDB, keep: "a.v1.0.0 a.v2.0.0 b.v1.0.0",
			want: `package db >=1.0.0 <3.0.0, required by a, b: db 2.0.0 of channel "stable"`,
		},
		"all": {
			catalog: db + "other c\nother/c 1.0.0\napp c\napp/c 1.0.0 " +
				constraintOf(`{"all":{"constraints":[{"package":{"packageName":"db","versionRange":"1.0.0"}},{"package":{"packageName":"other","versionRange":"1.0.0"}}]}}`),
			want: `package db 1.0.0, required by app: db 1.0.0 of channel "stable"
package other 1.0.0, required by app: other 1.0.0 of channel "c"`,
		},
		"any takes the first that the catalog has": {
			catalog: db + "other c\nother/c 1.0.0\napp c\napp/c 1.0.0 " +
				constraintOf(`{"any":{"constraints":[{"package":{"packageName":"db","versionRange":"9.0.0"}},{"package":{"packageName":"other","versionRange":"1.0.0"}}]}}`),
			want: `package other 1.0.0, required by app: other 1.0.0 of channel "c"`,
		},
		"any that is kept": {
			catalog: db + "other c\nother/c 1.0.0\napp c\napp/c 1.0.0 " +
				constraintOf(`{"any":{"constraints":[{"package":{"packageName":"db","versionRange":"1.0.0"}},{"package":{"packageName":"other","versionRange":"1.0.0"}}]}}`),
			keep: "app.v1.0.0 other.v1.0.0",
		},
		"any of nothing": {
			catalog: "app c\napp/c 1.0.0 " + constraintOf(`{"any":{"constraints":[{"gvk":{"group":"g","version":"v","kind":"K"}}]}}`),
			want:    "unmet: any of (API g/v/K), required by app: the catalog fulfills none of the alternatives",
		},
		"not": {
			catalog: db + "app c\napp/c 1.0.0 " + constraintOf(`{"not":{"constraints":[{"package":{"packageName":"db","versionRange":"1.0.0"}}]}}`),
		},
		"cel": {
			catalog: "app c\napp/c 1.0.0 " + constraintOf(`{"cel":{"rule":"true"}}`),
			want:    "unmet: CEL expression, required by app: CEL expressions are not evaluated",
		},
		"unknown": {
			catalog: "app c\napp/c 1.0.0 " + constraintOf(`{"some":1}`),
			want:    "unmet: unknown constraint, required by app: unknown type of constraint",
		},
		"malformed":       {catalog: "app c\napp/c 1.0.0 " + constraintOf(`[]`)},
		"nested too deep": {catalog: "app c\napp/c 1.0.0 " + constraintOf(strings.Repeat(`{"all":{"constraints":[`, 40)+strings.Repeat(`]}}`, 40))},
	} {
		t.Run(name, func(t *testing.T) {
			keep := strings.Fields(test.keep)
			result := catalogOf(t, test.catalog).Close(func(pkg, bundle string) bool {
				for _, name := range keep {
					if name == bundle {
						return true
					}
				}
				return len(keep) == 0 && pkg == "app"
			})
			var got []string
			for _, c := range result.Choices {
				got = append(got, c.String())
			}
			for _, u := range result.Unmet {
				got = append(got, "unmet: "+u.String())
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
