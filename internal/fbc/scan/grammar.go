package scan

// state is the kind of token that the grammar expects.
type state uint8

const (
	wantValue        state = iota // a value
	wantKey                       // a key
	afterElement                  // a comma or the end of the array; a comma leads to this state less 2
	afterMember                   // a comma or the end of the object; as above
	wantElementOrEnd              // the first value of an array, or its end
	wantKeyOrEnd                  // the first key of an object, or its end
	wantColon
)

// action is what the splitter does at a byte in a state.
type action uint8

const (
	refuse action = iota // also at the end of the window
	passSpace
	passString
	passKey
	passScalar
	openObject
	openArray
	closeContainer
	passColon
	passComma
)

// class is a set of bytes with the same meaning outside strings.
type class uint8

const (
	classOther class = iota
	classSpace
	classQuote
	classScalar
	classOpenObject
	classOpenArray
	classCloseObject
	classCloseArray
	classColon
	classComma
	classes = 16
)

// classOf is the class of each byte.
var classOf = func() (t [256]class) {
	for set, c := range map[string]class{
		" \t\r\n": classSpace, `"`: classQuote, "-0123456789tfn": classScalar, "{": classOpenObject, "[": classOpenArray,
		"}": classCloseObject, "]": classCloseArray, ":": classColon, ",": classComma,
	} {
		for _, b := range []byte(set) {
			t[b] = c
		}
	}
	return t
}()

// actionOf is the action of each state (times classes) and class: the grammar of RFC 8259.
var actionOf = func() (t [8 * classes]action) {
	set := func(s state, c class, a action) { t[int(s)*classes+int(c)] = a }
	for s := wantValue; s <= wantColon; s++ {
		set(s, classSpace, passSpace)
	}
	for _, s := range []state{wantValue, wantElementOrEnd} {
		set(s, classQuote, passString)
		set(s, classScalar, passScalar)
		set(s, classOpenObject, openObject)
		set(s, classOpenArray, openArray)
	}
	set(wantElementOrEnd, classCloseArray, closeContainer)
	set(afterElement, classCloseArray, closeContainer)
	set(afterElement, classComma, passComma)
	set(wantKey, classQuote, passKey)
	set(wantKeyOrEnd, classQuote, passKey)
	set(wantKeyOrEnd, classCloseObject, closeContainer)
	set(afterMember, classCloseObject, closeContainer)
	set(afterMember, classComma, passComma)
	set(wantColon, classColon, passColon)
	return t
}()
