// Players: figures whose reader decides what they show.
//
// Everything a player can show was drawn in Python and lies beside its first state, as JSON: elements of SVG, and for
// each state the numbers of those that it consists of. This script adds buttons and picks. It fetches nothing, so that
// pages work from a folder; where it doesn't run, the first state stands there, complete. What depends on too many
// controls for a list of states, another script computes: a few numbers, by which elements are picked.
"use strict";

const PACE = 700; // milliseconds from step to step when playing
const REST = 100; // milliseconds without a change after which the address follows: browsers refuse more than a few a second

// The address ends in the player's name and the places of its controls' values: #reads=12 or #layouts=2.0.
const address = (name, state) => `#${name}=${state.join(".")}`;

function fromAddress(name, controls) {
  const found = new RegExp(`^#${name}=([\\d.]+)$`).exec(location.hash);
  const state = found && found[1].split(".").map(Number);
  return state && state.length === controls.length && controls.every((c, i) => state[i] < c.values.length) ? state : null;
}

// A new element with attributes, and inside it texts and other elements.
function make(tag, attributes, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

// Return the SVG of a panel, and what it says to those who don't see it, given the places of the controls' values and
// computed numbers, by place and by name.
function picture({elements, layers}, values) {
  const body = [], words = [];
  for (const {on, states} of layers) {
    const [alt, ...runs] = states[on.map(name => values[name]).join()] || [""];
    for (let i = 0; i < runs.length; i += 2) body.push(...elements.slice(runs[i], runs[i] + runs[i + 1]));
    if (alt) words.push(alt);
  }
  const number = (found, name) => (name in values ? values[name].toLocaleString("en-GB") : found);
  return [body.join(""), words.join(" ")].map(text => text.replace(/\{([a-z ]+)\}/g, number));
}

// What a state looks up in tables, each by the values of some of the controls.
function lookedUp({tables}, state) {
  return Object.fromEntries(tables.flatMap(({on, names, rows}) => {
    const row = rows[on.map(control => state[control]).join()];
    return names.map((name, i) => [name, row[i]]);
  }));
}

class Player {
  constructor(box) {
    Object.assign(this, JSON.parse(box.querySelector("script").textContent));
    this.box = box;
    this.name = box.dataset.name;
    this.drawings = [...box.querySelectorAll("svg")];
    this.steps = this.controls.findIndex(control => control.kind === "step");
    this.said = make("p", {class: "sg-said", "aria-live": "polite"});
    const bar = make("div", {class: "sg-controls"}, ...this.controls.map((control, i) => this.input(control, i)));
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", this.title);
    box.prepend(bar, this.said);
    // Arrows step from anywhere in the player, but where they already mean something.
    box.addEventListener("keydown", event => {
      const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!by || this.steps < 0 || event.target.matches("input, select")) return;
      event.preventDefault();
      this.step(by);
    });
    for (const pick of this.picks || []) this.pickNearest(pick);
    for (const area of this.areas || []) this.pickCell(area);
    addEventListener("hashchange", () => this.followAddress());
    this.state = this.controls.map(control => control.start);
    this.show();
    this.followAddress();
  }

  // A mouse on a picture previews what it points at; a click or a tap sets the controls. A finger that scrolls does
  // neither. `aim` says which controls to set to which values, in pairs, given where the pointer is in pixels of the
  // drawing.
  point(panel, aim) {
    const drawing = this.drawings[panel];
    drawing.style.cursor = "crosshair";
    const aimed = event => {
      const {left, top, width} = drawing.getBoundingClientRect(), scale = drawing.viewBox.baseVal.width / width;
      return aim((event.clientX - left) * scale, (event.clientY - top) * scale);
    };
    drawing.addEventListener("pointermove", event => {
      if (event.pointerType === "touch" || this.timer) return;
      const state = [...this.state];
      for (const [control, value] of aimed(event)) state[control] = value;
      this.draw(state);
    });
    drawing.addEventListener("pointerleave", () => this.draw(this.state));
    drawing.addEventListener("click", event => {
      for (const [control, value] of aimed(event)) {
        this.pause();
        this.set(control, value);
      }
    });
  }

  // The nearest of a control's values.
  pickNearest({panel, control, axis, at}) {
    this.point(panel, (x, y) => {
      const far = at.map(([place]) => Math.abs(place - (axis === "x" ? x : y)));
      return [[control, at[far.indexOf(Math.min(...far))][1]]];
    });
  }

  // The values that a cell holds, as one number.
  pickCell({panel, box: [left, top, width, height], controls, cells}) {
    this.point(panel, (x, y) => {
      const row = cells[Math.floor((y - top) / height * cells.length)];
      let number = row && row[Math.floor((x - left) / width * row.length)];
      if (number === undefined) return [];
      return [...controls].reverse().map(control => {
        const values = this.controls[control].values.length, value = number % values;
        number = (number - value) / values;
        return [control, value];
      });
    });
  }

  // Show what the address names, if it names this player.
  followAddress() {
    const state = fromAddress(this.name, this.controls);
    if (!state) return;
    this.pause();
    this.state = state;
    this.show();
    unfold(this.box);
    this.box.scrollIntoView({block: "nearest"});
  }

  // Return a control's elements; each gets a function that shows the value it has.
  input(control, i) {
    const set = value => this.set(i, Number(value));
    if (control.kind === "step" || control.kind === "range") {
      const slider = make("input", {type: "range", min: 0, max: control.values.length - 1, "aria-label": control.name});
      const longest = Math.max(...control.values.map(value => value.length));
      const label = make("output", {style: `flex: 0 1 ${longest}ch`}); // so that nothing moves with the value
      slider.oninput = () => { this.pause(); set(slider.value); };
      control.refresh = value => {
        slider.value = value;
        label.textContent = control.values[value];
        slider.setAttribute("aria-valuetext", control.values[value]);
      };
      if (control.kind === "range") return make("span", {class: "sg-range"}, make("span", {}, control.name), slider, label);
      const back = make("button", {type: "button", "aria-label": "One step back"}, "‹");
      const forward = make("button", {type: "button", "aria-label": "One step forward"}, "›");
      back.onclick = () => this.step(-1);
      forward.onclick = () => this.step(1);
      this.play = make("button", {type: "button"});
      this.play.onclick = () => (this.timer ? this.pause() : this.start());
      // Who prefers reduced motion steps and is not played to.
      this.play.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
      this.pause();
      return make("span", {class: "sg-steps"}, this.play, back, slider, forward, label);
    }
    if (control.kind === "switch") {
      const check = make("input", {type: "checkbox"});
      check.onchange = () => set(check.checked);
      control.refresh = value => { check.checked = value; };
      return make("label", {}, check, control.name);
    }
    const select = make("select", {}, ...control.values.map((value, at) => make("option", {value: at}, value)));
    select.onchange = () => set(select.value);
    control.refresh = value => { select.value = value; };
    return make("label", {}, `${control.name} `, select);
  }

  set(control, value) {
    this.state[control] = value;
    if (this.preset) this.keepPreset(control);
    this.show();
    if (!this.timer) this.tellSoon(); // while it plays, the address stays
  }

  tellSoon() {
    clearTimeout(this.telling);
    this.telling = setTimeout(() => this.tell(), REST);
  }

  // Let the address and those who listen know.
  tell() {
    history.replaceState(null, "", address(this.name, this.state));
    this.said.textContent = this.drawings.map(drawing => drawing.getAttribute("aria-label")).join(" ");
  }

  // Set the controls that the control just set sets, or let go of the preset if the reader goes another way.
  keepPreset(control) {
    const {of, sets, states} = this.preset;
    const places = of.includes(control) && states[of.map(i => this.state[i]).join()];
    if (places) sets.forEach((i, at) => { this.state[i] = places[at]; });
    else if (of.includes(control) || sets.includes(control)) this.state[of[0]] = 0;
  }

  // Show the state, in the controls and in the pictures.
  show() {
    this.controls.forEach((control, i) => control.refresh(this.state[i]));
    this.draw(this.state);
  }

  // Show a state in the pictures alone.
  draw(state) {
    const computed = this.computed && globalThis[this.computed.script](this.computed.data, state);
    const values = {...state, ...computed};
    this.panels.forEach((panel, i) => {
      const [body, words] = picture(panel, values);
      this.drawings[i].innerHTML = body;
      this.drawings[i].setAttribute("aria-label", words);
    });
  }

  // One step on or back by the reader's hand.
  step(by) {
    this.pause();
    const last = this.controls[this.steps].values.length - 1;
    this.set(this.steps, Math.max(0, Math.min(last, this.state[this.steps] + by)));
  }

  start() {
    const last = this.controls[this.steps].values.length - 1;
    if (this.state[this.steps] === last) this.set(this.steps, 0);
    this.timer = setInterval(() => {
      const next = this.state[this.steps] + 1;
      if (next === last) this.pause();
      this.set(this.steps, next);
    }, PACE);
    this.label("Pause", "❚❚");
  }

  pause() {
    if (this.timer) this.tellSoon();
    clearInterval(this.timer);
    this.timer = null;
    if (this.play) this.label("Play", "▶");
  }

  label(name, sign) {
    this.play.setAttribute("aria-label", name);
    this.play.textContent = sign;
  }
}

// The page loads this before it has been read to its end.
addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll(".sg-player")) new Player(box);
});
