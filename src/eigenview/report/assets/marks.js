"use strict";
// Marks of groups, for every map and legend: a colour, and after ten groups another shape too.
{
  const { isDark } = eigenview;
  // Petroff's ten colours, chosen for the colour-blind; after ten groups the shape changes too.
  const palette = ["#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"];
  const onDark = { 2: "#d0111e", 4: "#a11fff" };  // as far from the others, and light enough
  const groupColour = (number) => (isDark() && onDark[number % 10]) || palette[number % 10];
  const shapePath = (ctx, number, x, y, r) => {
    ctx.beginPath();
    const kind = Math.floor(number / 10) % 4;
    if (kind === 0) ctx.arc(x, y, r, 0, 2 * Math.PI);
    else if (kind === 1) ctx.rect(x - r * .9, y - r * .9, r * 1.8, r * 1.8);
    else if (kind === 2) { ctx.moveTo(x, y - r * 1.2); ctx.lineTo(x + r * 1.15, y + r * .9); ctx.lineTo(x - r * 1.15, y + r * .9); ctx.closePath(); }
    else { ctx.moveTo(x, y - r * 1.3); ctx.lineTo(x + r * 1.3, y); ctx.lineTo(x, y + r * 1.3); ctx.lineTo(x - r * 1.3, y); ctx.closePath(); }
  };
  Object.assign(eigenview, { groupColour, shapePath });
}
