// Shows the sections that contain every word of the search field, those with the words in their title first.
const root = document.documentElement.dataset.root;
const results = document.getElementById("results");

function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const score = (s) => {
    const title = (s.title + " " + s.page).toLowerCase(), text = s.text.toLowerCase();
    let sum = 0;
    for (const w of words) {
      if (title.includes(w)) sum += 10;
      else if (text.includes(w)) sum += 1;
      else return 0;
    }
    return sum;
  };
  return sections.map((s) => [score(s), s]).filter(([n]) => n).sort((a, b) => b[0] - a[0]).slice(0, 20).map(([, s]) => s);
}

document.getElementById("search").addEventListener("input", (event) => {
  results.replaceChildren(...find(event.target.value).map((s) => {
    const row = document.createElement("div"), link = document.createElement("a");
    link.href = root + s.url;
    link.textContent = s.title === s.page ? s.title : s.page + ": " + s.title;
    row.append(link);
    return row;
  }));
});
