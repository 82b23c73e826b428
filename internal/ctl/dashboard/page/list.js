// The list of pods has elements for the rows in view only, so that thousands of pods stay fast.
import { make } from "./parts.js";

const height = 26;
const heads = ["Namespace", "Pod", "Runs in", "State", "Reason"];
const texts = (pod) => [pod.namespace, pod.name, pod.place, pod.state, pod.reason ?? ""];

export class PodList {
  // whole is where the active row stands uncut.
  constructor(grid, whole) {
    this.grid = grid;
    this.whole = whole;
    this.rows = [];
    this.active = -1;
    this.space = make("div", { role: "presentation" });
    const head = make("div", { class: "row head", role: "row", "aria-rowindex": 1 }, ...heads.map((text) => make("span", { role: "columnheader" }, text)));
    head.style.position = "sticky";
    grid.append(head, this.space);
    grid.addEventListener("scroll", () => this.draw(), { passive: true });
    grid.addEventListener("keydown", (event) => this.move(event));
    grid.addEventListener("click", (event) => {
      const row = event.target.closest(".row[id]");
      if (row) this.select(Number(row.getAttribute("aria-rowindex")) - 2);
    });
    new ResizeObserver(() => this.draw()).observe(grid);
  }

  show(rows) {
    const selected = this.rows[this.active]?.key;
    this.rows = rows;
    this.active = selected === undefined ? -1 : rows.findIndex((pod) => pod.key === selected);
    this.space.style.height = rows.length * height + "px";
    this.grid.setAttribute("aria-rowcount", rows.length + 1);
    this.draw();
    this.showWhole();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.grid.scrollTop / height) - 5);
    const last = Math.min(this.rows.length, first + Math.ceil(this.grid.clientHeight / height) + 10);
    const drawn = [];
    for (let i = first; i < last; i++) {
      const pod = this.rows[i];
      const row = make("div", { class: i === this.active ? "row active" : "row", role: "row", id: "pod-" + i, "aria-rowindex": i + 2, "aria-selected": i === this.active },
        ...texts(pod).map((text, column) =>
          make("span", { role: "gridcell", title: text, class: column === 3 ? pod.kind : undefined }, text)));
      row.style.top = (i + 1) * height + "px";
      drawn.push(row);
    }
    this.grid.replaceChildren(this.grid.firstChild, this.space, ...drawn);
    if (this.active >= first && this.active < last) this.grid.setAttribute("aria-activedescendant", "pod-" + this.active);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  showWhole() {
    const pod = this.rows[this.active], cells = pod ? texts(pod) : [], text = cells.join("\n");
    if (text === this.shown) return; // a selection in it stays
    this.shown = text;
    this.whole.replaceChildren(...cells.flatMap((cell, i) => (cell ? [make("dt", {}, heads[i]), make("dd", {}, cell)] : [])));
  }

  move(event) {
    const page = Math.floor(this.grid.clientHeight / height) - 1;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || this.rows.length === 0) return;
    event.preventDefault();
    this.select(Math.max(0, Math.min(this.rows.length - 1, this.active + step)));
  }

  select(index) {
    this.active = index;
    const top = index * height, room = this.grid.clientHeight - 2 * height;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top > this.grid.scrollTop + room) this.grid.scrollTop = top - room;
    this.draw();
    this.showWhole();
  }
}
