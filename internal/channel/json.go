package channel

// Named is a reference by name.
type Named struct {
	Name string `json:"name"`
}

// Details is a channel in the JSON of the plugin and of the content service.
type Details struct {
	Name        string       `json:"name"`
	Package     Named        `json:"package"`
	Catalog     Named        `json:"catalog"`
	IsDefault   bool         `json:"isDefault"`
	Deprecation *Deprecation `json:"deprecation,omitempty"`
	Head        Named        `json:"head"`
	Entries     []Entry      `json:"entries"`
}

// Graph returns the upgrade graph of the channel.
func (d *Details) Graph() *Graph {
	return New(Channel{Catalog: d.Catalog.Name, Package: d.Package.Name, Name: d.Name, Head: d.Head.Name, Entries: d.Entries})
}

// UpgradeGraph is a channel with the edges of its graph in JSON.
type UpgradeGraph struct {
	*Details
	Edges []Edge `json:"edges"`
}

// UpgradePath is a result of Paths in JSON.
type UpgradePath struct {
	Name      string        `json:"name"` // of the channel
	Package   Named         `json:"package"`
	Catalog   Named         `json:"catalog"`
	IsDefault bool          `json:"isDefault"`
	OLM       []Step        `json:"olm,omitzero"` // absent if OLM takes no path, see OLMNote; empty if no upgrade is needed
	OLMNote   string        `json:"olmNote,omitempty"`
	Shortest  []Step        `json:"shortest,omitempty"`
	Others    int           `json:"otherPaths"`
	MayBeMore bool          `json:"mayBeMore,omitempty"` // whether Others is a lower bound
	Notes     []string      `json:"notes,omitempty"`
	Blocked   *BlockedError `json:"blocked,omitempty"` // if there is no path
}

// UpgradePath returns the JSON of a result of Paths: paths, or the reason why there is none.
func (d *Details) UpgradePath(paths *Paths, blocked *BlockedError) UpgradePath {
	p := UpgradePath{Name: d.Name, Package: d.Package, Catalog: d.Catalog, IsDefault: d.IsDefault}
	switch {
	case paths != nil:
		p.OLM, p.OLMNote, p.Shortest = paths.OLM, paths.OLMNote, paths.AnyShortest()
		p.Others, p.MayBeMore, p.Notes = paths.Others, paths.MayBeMore, paths.Notes
	case blocked.Block == Already:
		p.OLM, p.Notes = []Step{}, []string{"nothing to do: " + blocked.Message}
	default:
		p.Blocked = blocked
	}
	return p
}
