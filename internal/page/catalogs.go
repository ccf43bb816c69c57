package page

// The health of a catalog.
const (
	good    = "good"
	pending = "wait"
	bad     = "bad"
)

// Health returns the health of a catalog by its condition Ready. Without conditions, a served catalog is healthy.
func (c catalog) Health() string {
	for _, condition := range c.Conditions {
		switch {
		case condition.Type != "Ready":
		case condition.Status == "True":
			return good
		case condition.Status == "False":
			return bad
		default:
			return pending
		}
	}
	if c.Digest == "" {
		return pending
	}
	return good
}
